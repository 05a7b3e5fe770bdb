"""Writes the sample plate: pictures with exact time stamps, and a click track."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import cast

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from farm.errors import InputError

SOUND_RATE = 48_000
_CLICK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Codec:
    """How a sample plate is encoded: FFmpeg's encoder names, sample format, options, file suffix."""

    video: str
    sample_format: str
    options: tuple[tuple[str, str], ...]
    audio: str
    suffix: str


CODECS = {
    # without mbtree=0 x264 now and then gives other bytes for the same pictures (seen at 160×90)
    "h264": Codec("libx264", "yuv420p", (("preset", "veryfast"), ("crf", "17"), ("mbtree", "0")), "aac", ".mp4"),
    "hevc": Codec("libx265", "yuv420p", (("preset", "ultrafast"), ("crf", "18")), "aac", ".mp4"),
    "hevc10": Codec("libx265", "yuv420p10le", (("preset", "ultrafast"), ("crf", "18")), "aac", ".mp4"),
    "ffv1": Codec("ffv1", "yuv420p", (("level", "3"), ("slices", "4")), "flac", ".mkv"),
}


def codec(name: str) -> Codec:
    """The codec called `name`; InputError names those there are."""
    if name not in CODECS:
        raise InputError(f"There is no sample codec {name!r}.", where="codec", do=f"Choose from: {', '.join(CODECS)}.")
    return CODECS[name]


class ClipWriter:
    """One file with one picture stream (BT.709, limited range) and one click track.

    Parameters
    ----------
    path: the file, with the codec's suffix.
    codec: how to encode.
    size: width and height, even.
    fps: nominal rate. time_base: seconds a tick of the pts given to `write`.
    """

    def __init__(self, path: Path, codec: Codec, *, size: tuple[int, int], fps: Fraction, time_base: Fraction) -> None:
        self._container = av.open(str(path), "w", container_options={"fflags": "+bitexact"})
        self._video = cast(av.VideoStream, self._container.add_stream(codec.video, rate=fps))
        self._video.width, self._video.height = size
        self._video.pix_fmt = codec.sample_format
        self._video.codec_context.time_base = time_base
        # bt709 = 1 in FFmpeg's tables of primaries, transfer and matrix; limited range = 1
        self._video.codec_context.color_primaries = 1
        self._video.codec_context.color_trc = 1
        self._video.codec_context.colorspace = 1
        self._video.codec_context.color_range = 1
        # a fixed number: the encoder's output depends on it
        self._video.codec_context.thread_count = 4
        self._video.options = {**dict(codec.options), **_quiet(codec.video)}
        self._video.time_base = time_base
        self._sound = cast(av.AudioStream, self._container.add_stream(codec.audio, rate=SOUND_RATE, layout="mono"))
        self._time_base = time_base

    def __enter__(self) -> ClipWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()

    def write(self, picture: NDArray[np.uint8], pts: int) -> None:
        """Encode one picture, uint8 (h, w, 3) BGR."""
        frame = av.VideoFrame.from_ndarray(picture, format="bgr24").reformat(
            format=self._video.pix_fmt,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            dst_colorspace=Colorspace.ITU709,
        )
        frame.pts, frame.time_base = pts, self._time_base
        self._container.mux(self._video.encode(frame))

    def finish(self, sound: NDArray[np.float32]) -> None:
        """Flush the pictures and write the whole sound, float32 (samples,) -1..1."""
        self._container.mux(self._video.encode(None))
        frame_size = self._sound.codec_context.frame_size or 1024
        kind = "fltp" if self._sound.codec_context.name == "aac" else "s16"
        for start in range(0, len(sound), frame_size):
            part = sound[start : start + frame_size]
            samples = part[None] if kind == "fltp" else np.rint(part * 32767).astype(np.int16)[None]
            frame = av.AudioFrame.from_ndarray(samples, format=kind, layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE, start, Fraction(1, SOUND_RATE)
            self._container.mux(self._sound.encode(frame))
        self._container.mux(self._sound.encode(None))


def click_track(instants: Iterable[Fraction], seconds: Fraction) -> NDArray[np.float32]:
    """Sound of `seconds` at `SOUND_RATE` with a decaying 1 kHz burst that starts at each instant (seconds)."""
    sound = np.zeros(round(seconds * SOUND_RATE), np.float32)
    at = np.arange(round(_CLICK_SECONDS * SOUND_RATE)) / SOUND_RATE
    burst = (0.8 * np.cos(2 * np.pi * 1000 * at) * np.exp(-at / 0.004)).astype(np.float32)
    for instant in instants:
        start = round(instant * SOUND_RATE)
        part = sound[start : start + len(burst)]
        part += burst[: len(part)]
    return sound


def _quiet(encoder: str) -> dict[str, str]:
    """x265 prints to stderr by itself."""
    return {"x265-params": "log-level=error"} if encoder == "libx265" else {}
