"""When a segment is decoded on the card, with pictures that are only arrays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from av.error import ExternalError

import farm.media.segmentdecoder as module
from farm.media.segmentdecoder import segment_decoder


@pytest.fixture(autouse=True)
def _header(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Reader:
        header = SimpleNamespace(coding="copy")

        def __init__(self, path: Path) -> None:
            self.header = SimpleNamespace(coding="lossless" if path.name == "lossless" else "copy")

        def __enter__(self) -> _Reader:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(module, "SegmentFileReader", _Reader)


def _facts(sample_format: str = "yuv420p") -> Any:
    return SimpleNamespace(video=SimpleNamespace(sample_format=sample_format))


def _timeline(damaged: int = 0) -> Any:
    return SimpleNamespace(concealed=[], damaged=[0] * damaged)


def _same(_: Path, __: bool) -> list[Any]:
    return [(np.zeros((4, 4), np.uint8),)]


def _other(_: Path, on_card: bool) -> list[Any]:
    return [(np.full((4, 4), int(on_card), np.uint8),)]


def _broken(_: Path, on_card: bool) -> list[Any]:
    if on_card:
        raise ExternalError(1, "no decoder surfaces")
    return _same(_, on_card)


def test_the_card_decodes_what_it_decodes_as_the_processor_does() -> None:
    choice = segment_decoder(Path("s"), _facts(), _timeline(), devices=lambda: ["cuda"], look=_same)
    assert (choice.name, choice.why) == ("nvdec", "")


@pytest.mark.parametrize(
    ("path", "sample_format", "damaged", "devices", "look", "why"),
    [
        ("s", "yuv422p", 0, ["cuda"], _same, "no form"),
        ("s", "yuv420p", 1, ["cuda"], _same, "damaged"),
        ("lossless", "yuv420p", 0, ["cuda"], _same, "coded anew"),
        ("s", "yuv420p", 0, [], _same, "without CUDA"),
        ("s", "yuv420p", 0, ["cuda"], _broken, "no decoder surfaces"),
        ("s", "yuv420p", 0, ["cuda"], _other, "not those of the processor"),
        ("s", "yuv420p", 0, ["cuda"], lambda *_: [], "not those of the processor"),
    ],
)
def test_else_the_processor_does_and_it_is_said_why(
    path: str, sample_format: str, damaged: int, devices: list[str], look: Any, why: str
) -> None:
    choice = segment_decoder(Path(path), _facts(sample_format), _timeline(damaged), devices=lambda: devices, look=look)
    assert choice.name == "cpu"
    assert why in choice.why
