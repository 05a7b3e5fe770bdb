"""Pictures given to an encoder where they lie, here in NV12 arrays of the processor: what NVENC would be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.cuda.surface import Surface
from farm.media import card_picture
from farm.media.card_picture import handed_over, through_memory
from farm.media.deliverables import deliverable
from farm.media.encoders import EncoderPlan, chunk_encoder
from farm.media.frame import Frame
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import scan_timeline
from farm.media.writer import ChunkWriter
from farm.sample import generate
from tests.unit.media_write.facts import plate

FRAMES = 6


def works(*_: object) -> None:
    return None


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("clip"), seconds=0.5, size=(320, 180)).plate


def there(frame: Frame) -> tuple[NDArray[Any], NDArray[Any]]:
    surface = Surface.of(frame)
    picture = np.zeros((surface.rows, surface.width), surface.dtype)
    surface.pack(frame, picture)
    return picture[: surface.height], picture[surface.height :]


def written(clip: Path, path: Path, *, on_card: bool, broken: bool = False) -> tuple[list[Frame], ChunkWriter]:
    facts = probe(clip)
    timeline = scan_timeline(clip, facts)
    plan = chunk_encoder(deliverable("h264"), facts, hardware=False)
    with ChunkWriter(path, plan, facts, timeline, 0, FRAMES, on_card=on_card) as writer:
        for frame in read_plate(clip, facts, timeline):
            if frame.index < FRAMES:
                luma, chroma = there(frame)
                writer.write(frame, None, (luma, chroma[:-1] if broken else chroma) if on_card else None)
        writer.close()
    return list(read_plate(path, probe(path))), writer


def near(one: list[Frame], clip: Path) -> bool:
    """Whether the frames are the clip's first, as far as x264 keeps them; it codes nothing twice in the same way."""
    plates = [frame for frame in read_plate(clip, probe(clip)) if frame.index < FRAMES]
    return all(
        np.abs(a.astype(int) - b).mean() < 3
        for x, y in zip(one, plates, strict=True)
        for a, b in zip(x.planes, y.planes, strict=True)
    )


def test_an_encoder_fed_on_the_card_codes_the_plates_pictures(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = written(clip, tmp_path / "memory.mp4", on_card=True)
    assert writer.way == "through memory: the encoder works in memory"
    monkeypatch.setattr(card_picture, "ENCODERS", frozenset({"libx264"}))
    made, writer = written(clip, tmp_path / "card.mp4", on_card=True)
    assert writer.way == "on the card, by DLPack"
    assert len(made) == FRAMES
    assert near(made, clip)


def test_where_the_first_picture_is_refused_all_go_through_memory_and_the_record_says_why(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_picture, "ENCODERS", frozenset({"libx264"}))
    made, writer = written(clip, tmp_path / "refused.mp4", on_card=True, broken=True)
    assert "refused the first picture" in writer.way
    assert "plane 1" in writer.way
    _, writer = written(clip, tmp_path / "processor.mp4", on_card=False)
    assert "not worked on by the card" in writer.way
    assert near(made, clip)


def test_what_is_handed_over_is_the_picture_itself_with_its_tags() -> None:
    plan = chunk_encoder(deliverable("h264"), plate(width=64, height=36), probe=works)
    random = np.random.default_rng(3)
    luma, chroma = (random.integers(16, 236, (rows, 64)).astype(np.uint8) for rows in (36, 18))
    made = handed_over((luma, chroma), plan)
    assert made.format.name == "nv12"
    assert (made.colorspace, made.color_range) == (1, 1)
    for plane, rows in zip(made.planes, (luma, chroma), strict=True):
        assert np.array_equal(np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: len(rows), :64], rows)


@pytest.mark.parametrize(
    ("name", "video", "why"),
    [
        ("h264", {}, ""),
        ("hevc10", {"sample_format": "yuv420p10le", "bit_depth": 10}, ""),
        ("hevc10", {}, "other samples"),
        ("hevc10", {"sample_format": "yuv422p10le", "bit_depth": 10}, "other samples"),
        ("h264", {"width": 1919}, "other samples"),
        ("ffv1", {}, "in memory"),
    ],
)
def test_which_deliverables_take_pictures_on_the_card(name: str, video: dict[str, Any], why: str) -> None:
    plan: EncoderPlan = chunk_encoder(deliverable(name), plate(**video), probe=works)
    assert why in through_memory(plan)
    assert bool(why) is bool(through_memory(plan))
