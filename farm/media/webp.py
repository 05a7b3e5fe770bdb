"""Animated WebP, which FFmpeg has no decoder for: Pillow decodes it, and its pictures are handed on as a PNG film.

The film is made while it is read, picture by picture, and looks to FFmpeg like a fragmented QuickTime file: so each
picture keeps its own length in milliseconds, and whoever reads plates needs to know nothing of this. What a picture
looks like, blending and disposal included, is libwebp's answer, as in browsers; samples are RGB, with alpha where the
file has it. Format: WebP Container Specification (RFC 9649, section 2.7).
"""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from farm.errors import InputError
from farm.media import limits

CONTAINER = "webp_pipe"
"""FFmpeg's name of the container."""
MUXED_AS = "mov"
_ANIMATED = 0x02
_UNSTATED_MS = 100
"""How long a picture lasts whose length is 0: as browsers have it."""
_MOVFLAGS = "frag_every_frame+empty_moov+default_base_moof"


class _Shot(NamedTuple):
    """One picture of the animation: the byte offset of its chunk, when it is shown and for how long, milliseconds."""

    at: int
    start: int
    length: int


def is_animation(path: Path) -> bool:
    """Whether the file is a WebP with moving pictures."""
    with path.open("rb") as file:
        head = file.read(21)
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and len(head) == 21 and bool(head[20] & _ANIMATED)


class PngFilm:
    """What `av.open` reads in the place of the file, with `format=MUXED_AS`; bounded memory beside the file's bytes.

    Raises InputError, also while read: with the byte and the time where the animation breaks.
    """

    def __init__(self, path: Path, where: str) -> None:
        self._path, self._where = path, where
        self._shots = self._index()
        self._made = bytearray()
        self._pieces = self._film()

    @property
    def seconds(self) -> Fraction:
        return Fraction(self._shots[-1].start + self._shots[-1].length, 1000)

    def read(self, size: int) -> bytes:
        while len(self._made) < size and next(self._pieces, False):
            pass
        given = bytes(self._made[:size])
        del self._made[:size]
        return given

    def write(self, data: bytes) -> int:
        """For the muxer."""
        self._made += data
        return len(data)

    def close(self) -> None:
        self._pieces.close()

    def _index(self) -> list[_Shot]:
        """Where the pictures are. InputError where the file is shorter than it says or is larger than is taken."""
        shots: list[_Shot] = []
        start, size = 0, self._path.stat().st_size
        with self._path.open("rb") as file:
            end = 8 + int.from_bytes(file.read(8)[4:], "little")
            if end > size:
                raise self._broken(f"was cut off: it claims {end} bytes and {size} are there", size, None)
            at = 12
            while at + 8 <= end:
                file.seek(at)
                head = file.read(24)
                if head[:4] == b"VP8X":
                    self._check_canvas(head)
                elif head[:4] == b"ANMF":
                    length = int.from_bytes(head[20:23], "little") or _UNSTATED_MS
                    shots.append(_Shot(at, start, length))
                    start += length
                at += 8 + (int.from_bytes(head[4:8], "little") + 1) // 2 * 2
        if not shots:
            raise self._broken("has no pictures", size, None)
        return shots

    def _check_canvas(self, head: bytes) -> None:
        width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (12, 15))
        # Pillow is handed no larger one: it makes room for the whole canvas at once.
        if max(width, height) > limits.MAX_SIDE or width * height > limits.MAX_PIXELS:
            raise InputError(
                f"The picture is {width}×{height}; no side may be over {limits.MAX_SIDE}.",
                where=self._where,
                do="Scale it down.",
            )

    def _film(self) -> Generator[bool]:
        """Writes the film to this object; gives True whenever there is more to read."""
        from PIL import Image  # nothing else needs it, so no other plate waits for it

        try:
            image: Any = Image.open(self._path, formats=("WEBP",))
        except (OSError, SyntaxError) as error:
            raise self._broken("cannot be read", 0, 0) from error
        options = {"movflags": _MOVFLAGS, "video_track_timescale": "1000"}
        with image, av.open(self, "w", format=MUXED_AS, options=options) as film:
            stream: Any = film.add_stream("png", rate=1000, options={"compression_level": "1"})
            stream.width, stream.height = image.size
            stream.pix_fmt = "rgba" if image.mode == "RGBA" else "rgb24"
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
            for number, shot in enumerate(self._shots):
                picture = av.VideoFrame.from_ndarray(self._picture(image, number, shot), format=stream.pix_fmt)
                picture.pts, picture.time_base = shot.start, stream.time_base
                for packet in stream.encode(picture):
                    packet.duration = shot.length
                    film.mux(packet)
                yield True
            film.mux(stream.encode(None))
        yield True

    def _picture(self, image: Any, number: int, shot: _Shot) -> np.ndarray[Any, np.dtype[np.uint8]]:
        try:
            image.seek(number)
            return np.asarray(image)
        except (EOFError, OSError, SyntaxError) as error:
            raise self._broken(f"cannot be decoded at its picture {number + 1}", shot.at, shot.start) from error

    def _broken(self, what: str, at: int, milliseconds: int | None) -> InputError:
        time = "" if milliseconds is None else f", at {milliseconds / 1000:.3f} s"
        return InputError(
            f"The WebP animation {what}.", where=f"{self._where} at byte {at}{time}", do="Copy or upload it again."
        )
