"""What sample formats are made of, what one loses in another, and which of several fits a plate best."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from farm.media.planes import planar_format

_CHROMA = {(1, 1): "4:2:0", (1, 0): "4:2:2", (0, 0): "4:4:4", (0, 1): "4:4:0", (2, 0): "4:1:1", (2, 2): "4:1:0"}


class Make(NamedTuple):
    """How a sample format is made; shifts are log2 of the chroma subsampling."""

    depth: int
    shift_x: int
    shift_y: int
    family: str
    alpha: bool

    @property
    def chroma(self) -> str:
        return _CHROMA.get((self.shift_x, self.shift_y), "subsampled")


@lru_cache(maxsize=256)
def make_of(name: str) -> Make:
    """The make of FFmpeg's sample format `name`, packed and semi-planar ones included."""
    planar = planar_format(name)
    return Make(planar.depth, planar.chroma_shift_x, planar.chroma_shift_y, planar.family, planar.alpha)


def lost(source: str, target: str) -> list[str]:
    """What samples of `source` lose in `target`, in words; empty where every sample survives."""
    a, b = make_of(source), make_of(target)
    words = []
    if b.depth < a.depth:
        words.append(f"{a.depth} bits a sample become {b.depth}")
    if a.family != "gray" and b.family == "yuv" and (b.shift_x > a.shift_x or b.shift_y > a.shift_y):
        words.append(f"{a.chroma} chroma becomes {b.chroma}")
    if a.family != "gray" and b.family == "gray":
        words.append("colour is dropped")
    if a.family == "rgb" and b.family == "yuv":
        words.append("RGB becomes Y'CbCr")
    if a.alpha and not b.alpha:
        words.append("the alpha channel is dropped")
    return words


def closest(source: str, candidates: Iterable[str]) -> str:
    """Of the candidates the one that loses least of `source`, then the one that adds least to it."""
    a = make_of(source)

    def cost(name: str) -> tuple[int, int]:
        b = make_of(name)
        depth = abs(b.depth - a.depth)
        chroma = abs(b.shift_x - a.shift_x) + abs(b.shift_y - a.shift_y)
        other = 8 * (b.family != a.family) + 4 * (b.alpha != a.alpha)
        return len(lost(source, name)), depth + chroma + other

    names = list(candidates)
    return source if source in names else min(names, key=cost)


def chroma_shifts(name: str) -> tuple[int, int]:
    """log2 of the chroma subsampling across and down; (0, 0) without chroma."""
    make = make_of(name)
    return make.shift_x, make.shift_y
