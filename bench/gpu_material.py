"""What the GPU benchmark works on: the plate, made long by repeating its packets, and whose face is put in."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from farm.faces.cuda.surface import Surface
from farm.media.facts import ColourFacts

SIZE = (1920, 1080)
RATE = 24
GOP = 48
COLOUR = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location="left")
SURFACE = Surface(*SIZE, 8, COLOUR)


def draw_plate(path: Path, frames: int = GOP) -> None:
    """1080p H.264 with one face of about 300 px, a key frame every two seconds.

    In the first two seconds no hand is seen; later the collar is taken for one here and there.

    The sample's scene is drawn larger and its middle is taken, since its faces are a fifth of the picture.
    """
    from farm.sample.generator import Scene

    scene = Scene(seconds=frames / RATE, size=(2560, 1440), identities=("astronaut",), events=False)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        keys = f"keyint={GOP}:min-keyint={GOP}:scenecut=0"
        stream.options = {"preset": "veryfast", "crf": "22", "x264-params": keys}
        context = stream.codec_context
        context.color_primaries = context.color_trc = context.colorspace = context.color_range = 1
        for index in range(frames):
            picture, _ = scene.draw(index / RATE, index)
            cut = np.ascontiguousarray(picture[180:1260, 320:2240])
            frame = av.VideoFrame.from_ndarray(cut, format="bgr24").reformat(
                format="yuv420p",
                src_color_range=ColorRange.JPEG,
                dst_color_range=ColorRange.MPEG,
                dst_colorspace=Colorspace.ITU709,
            )
            frame.pts, frame.time_base = index, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def repeat(plate: Path, path: Path, frames: int) -> None:
    """The plate's packets over and over, at least `frames` pictures."""
    with av.open(str(plate)) as source, av.open(str(path), "w") as target:
        given = source.streams.video[0]
        made = target.add_stream_from_template(given)
        packets = [p for p in source.demux(given) if p.size]
        step = int(1 / (RATE * given.time_base))
        stamps = [(p.pts or 0, p.dts or 0) for p in packets]
        for turn in range(-(-frames // len(packets))):
            shift = turn * len(packets) * step
            for packet, (pts, dts) in zip(packets, stamps, strict=True):
                packet.pts, packet.dts, packet.stream = pts + shift, dts + shift, made
                target.mux(packet)
                packet.stream = given


def semi_planar_pictures(path: Path) -> Iterator[NDArray[np.uint8]]:
    """The plate's pictures as NV12 (rows, width), by the processor's decoder."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for picture in container.decode(stream):
            planes = picture.reformat(format="nv12").planes
            rows = [np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, : SIZE[0]] for p in planes]
            yield np.concatenate(rows)


def identity() -> NDArray[np.float32]:
    return np.random.default_rng(11).standard_normal(512).astype(np.float32)
