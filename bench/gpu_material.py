"""What the GPU benchmark works on: the plate, made long by repeating its packets, and how a slot is set up."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray

from bench.gpu_networks import SHAPES
from farm.faces.cuda.look import CADENCE
from farm.faces.cuda.networks import CARD, CHOSEN, FUSED, looking_source
from farm.faces.cuda.surface import Surface
from farm.faces.cuda.swap import SwapSettings
from farm.inference import providers as ep
from farm.inference.catalogue import Catalogue
from farm.media.facts import ColourFacts
from farm.resources import resource
from farm.worker.gpu_render import GpuRender, Network, Part

SIZE = (1920, 1080)
RATE = 24
GOP = 48
LOOKERS = 2
COLOUR = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location="left")
SURFACE = Surface(*SIZE, 8, COLOUR)


def draw_plate(path: Path, frames: int = 240) -> None:
    """1080p H.264 with one face of about 300 px, a key frame every two seconds.

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


def repeat(plate: Path, path: Path, frames: int) -> list[int]:
    """The plate's packets over and over, at least `frames` pictures; the pts of all key frames."""
    with av.open(str(plate)) as source, av.open(str(path), "w") as target:
        given = source.streams.video[0]
        made = target.add_stream_from_template(given)
        packets = [p for p in source.demux(given) if p.size]
        ticks = given.time_base
        step = int(1 / (RATE * ticks))
        stamps = [(p.pts or 0, p.dts or 0) for p in packets]
        keys = []
        for turn in range(-(-frames // len(packets))):
            shift = turn * len(packets) * step
            for packet, (pts, dts) in zip(packets, stamps, strict=True):
                packet.pts, packet.dts, packet.stream = pts + shift, dts + shift, made
                if packet.is_keyframe:
                    keys.append(pts + shift)
                target.mux(packet)
                packet.stream = given
    with av.open(str(path)) as again:
        scale = ticks / again.streams.video[0].time_base
    return [int(key * scale) for key in keys]


def parts(keys: list[int], lanes: int) -> list[Part]:
    """The plate in `lanes` parts that begin at key frames."""
    starts = [keys[len(keys) * i // lanes] for i in range(lanes)]
    return list(zip([None, *starts[1:]], [*starts[1:], None], strict=True))


def render(
    variant: str,
    model: Path,
    *,
    batch: int,
    lanes: int,
    providers: tuple[str, ...] = (ep.CUDA,),
    lookers: int = LOOKERS,
    cadence: int = CADENCE,
) -> GpuRender:
    """A slot for the bench's plate with a stand-in of `SHAPES` as swapper, detector and landmarker the bundled ones.

    Networks and precisions are those of a job on the card. cadence: of frames that are looked at in full.
    """
    catalogue = Catalogue.load(resource("models"))
    yunet, points = catalogue.spec("yunet"), catalogue.spec("face-landmarks-478")
    weights = Path(str(resource("models"))) / "weights"
    few = max(1, batch // 4)
    keys = batch // cadence + (cadence > 1)
    eye, level = (looking_source(weights / spec.files["fp32"].file, CARD) for spec in (yunet, points))
    return GpuRender(
        SURFACE,
        Network(eye, yunet, (keys,), CHOSEN),
        Network(level, points, (batch,), FUSED),
        Network(model, catalogue.spec(SHAPES[variant].model), (batch, few), CHOSEN),
        batch=batch,
        providers=providers,
        rough=Network(level, points, (keys,), FUSED),
        settings=SwapSettings(),
        lanes=lanes,
        lookers=lookers,
        cadence=cadence,
    )


def identity() -> NDArray[np.float32]:
    return np.random.default_rng(11).standard_normal(512).astype(np.float32)
