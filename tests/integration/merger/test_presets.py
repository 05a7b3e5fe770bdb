"""Every preset with its real CPU encoder: it decodes, its chunks share one header, its quality is one encode's."""

from __future__ import annotations

import av
import numpy as np
import pytest

from farm.errors import InputError, RecipeError
from farm.media.deliverables import names
from farm.media.encoders import EncoderPlan
from farm.media.frame import Frame
from farm.media.picture import PictureMaker
from farm.media.planes import planar_format, to_planes
from farm.media.probe import probe
from farm.media.writer import ChunkWriter
from tests.integration.merger.workshop import Workshop, picture_times, vmaf

CODECS = {
    "h264": "h264",
    "h264-fit": "h264",
    "ffv1": "ffv1",
    "hevc10": "hevc",
    "av1": "av1",
    "prores": "prores",
    "prores4444": "prores",
    "dnxhr": "dnxhd",
    "review": "h264",
    "matte": "prores",
    "face-only": "prores",
    "match": "h264",
}


@pytest.mark.parametrize("name", names())
def test_preset_in_chunks(workshop: Workshop, name: str) -> None:
    plate = workshop.media.make("h264_audio.mp4")
    rendered = workshop.render(plate, name, 4, max_bytes=200_000)

    report = rendered.merge()

    assert report.verified.ok
    out = probe(rendered.out)
    assert out.video.codec == CODECS[name]
    assert out.container.split(",")[0] == {"mp4": "mov", "mov": "mov", "matroska": "matroska"}[rendered.plan.container]
    assert len({chunk.facts.extradata_sha256 for chunk in rendered.chunks}) == 1
    if rendered.plan.container != "matroska":
        assert picture_times(rendered.out) == picture_times(plate)
    assert len(out.streams) == (1 if rendered.plan.carries_tracks else 0)


@pytest.mark.parametrize("name", ["h264", "hevc10", "av1", "prores", "dnxhr", "ffv1", "review"])
def test_odd_and_tiny_pictures(workshop: Workshop, name: str) -> None:
    source = ["-f", "lavfi", "-i", "testsrc2=size=64x36:rate=24:duration=0.25"]
    plate = workshop.media.make_custom(".nut", *source, "-vf", "format=yuv444p,crop=17:3", "-c:v", "rawvideo")
    rendered = workshop.render(plate, name, 2)

    rendered.merge()

    plan, out = rendered.plan, probe(rendered.out).video
    assert (rendered.facts.video.width, rendered.facts.video.height) == (17, 3)
    assert (out.width, out.height) == (17 + plan.pad_right, 3 + plan.pad_bottom) == (plan.width, plan.height)
    assert bool(plan.pad_right or plan.pad_bottom) == any("padded" in words for words in plan.changes)
    assert name != "ffv1" or not plan.changes


@pytest.mark.parametrize("name", ["h264", "hevc10", "av1"])
def test_quality_is_that_of_one_encode(workshop: Workshop, name: str) -> None:
    """Within one VMAF point of the same preset in a single chunk."""
    plate = workshop.media.make_custom(
        ".mkv",
        *["-f", "lavfi", "-i", "mandelbrot=size=320x180:rate=24:start_scale=0.5", "-frames:v", "48"],
        *["-c:v", "ffv1", "-pix_fmt", "yuv420p"],
    )
    scores = []
    for parts in (1, 4):
        rendered = workshop.render(plate, name, parts)
        rendered.merge()
        scores.append(vmaf(rendered.out, plate, workshop.folder / "vmaf.json"))
    assert scores[0] > 85
    assert abs(scores[1] - scores[0]) <= 1


def test_rgb_becomes_the_right_luma(workshop: Workshop) -> None:
    """Pure red in BT.709, limited range, is (63, 102, 240) by the standard's equations."""
    plate = workshop.media.make_custom(
        ".nut", "-f", "lavfi", "-i", "color=red:size=64x36:rate=24:duration=0.2,format=gbrp", "-c:v", "rawvideo"
    )
    rendered = workshop.render(plate, "h264")
    rendered.merge()
    with av.open(str(rendered.out)) as container:
        planes, _ = to_planes(next(container.decode(video=0)))
    means = [float(np.mean(plane)) for plane in planes]
    assert means == pytest.approx([63, 102, 240], abs=1)
    assert probe(rendered.out).video.colour.matrix == "bt709"


def test_matte_is_white_where_the_face_is(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_closed.mp4"), "matte")
    rendered.merge()
    with av.open(str(rendered.out)) as container:
        luma = to_planes(next(container.decode(video=0)))[0][0]
    assert np.abs(luma[:80].astype(int) - 940).max() <= 4
    assert np.abs(luma[100:].astype(int) - 64).max() <= 4


def test_face_only_has_the_mask_as_alpha_and_nothing_else_of_the_picture(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_closed.mp4"), "face-only")
    rendered.merge()
    with av.open(str(rendered.out)) as container:
        luma, _, _, alpha = to_planes(next(container.decode(video=0)))[0]
    assert (alpha[:80] >= 4090).all()
    assert (alpha[100:] == 0).all()
    assert int(np.ptp(luma[:80])) > 1000
    assert np.abs(luma[100:].astype(int) - 256).max() <= 40


def test_review_copies_show_where_one_is(workshop: Workshop) -> None:
    plate = workshop.media.make_custom(
        ".mp4", "-f", "lavfi", "-i", "color=gray:size=1280x720:rate=24:duration=0.2", "-c:v", "libx264"
    )
    rendered = workshop.render(plate, "review")
    rendered.merge()
    with av.open(str(rendered.out)) as container:
        frames = [to_planes(frame)[0][0] for frame in container.decode(video=0)]
    assert frames[0].shape == (540, 960)
    assert frames[0][-40:].max() > 200
    assert np.ptp(frames[0][:400]) < 8
    assert np.abs(frames[0][-40:].astype(int) - frames[-1][-40:].astype(int)).max() > 100


def test_interlaced_h264_stays_interlaced(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_mbaff.ts"), "h264", 2)
    rendered.merge()
    assert probe(rendered.out).video.field_order == rendered.facts.video.field_order != "progressive"
    with av.open(str(rendered.out)) as container:
        assert all(frame.interlaced_frame for frame in container.decode(video=0))


def _one_frame(rendered_plan: EncoderPlan, pts: int, index: int, *, height: int = 180) -> Frame:
    fmt = planar_format("yuv420p")
    planes = (np.zeros((height, 320), np.uint8), *(np.zeros((height // 2, 160), np.uint8) for _ in range(2)))
    return Frame(planes, fmt, rendered_plan.colour, pts, index)


def test_a_writer_takes_the_plans_frames_only(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_closed.mp4"), "h264")
    facts, timeline, plan = rendered.facts, rendered.timeline, rendered.plan
    path = workshop.folder / "chunk.nut"
    pts = [int(p) for p in timeline.pts]

    with (
        pytest.raises(RecipeError, match=r"frame 3 .* was due"),
        ChunkWriter(path, plan, facts, timeline, 3, 6) as writer,
    ):
        writer.write(_one_frame(plan, pts[4], 4))
    assert not path.exists()
    with pytest.raises(RecipeError, match="timeline says"), ChunkWriter(path, plan, facts, timeline, 3, 6) as writer:
        writer.write(_one_frame(plan, pts[3] + 1, 3))
    with pytest.raises(InputError, match="320×90"), ChunkWriter(path, plan, facts, timeline, 3, 6) as writer:
        writer.write(_one_frame(plan, pts[3], 3, height=90))
    with ChunkWriter(path, plan, facts, timeline, 3, 6) as writer:
        writer.write(_one_frame(plan, pts[3], 3))
        with pytest.raises(RecipeError, match="ends at frame 3"):
            writer.close()
    assert not path.exists()


def test_a_matte_without_masks_is_refused(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_closed.mp4"), "matte")
    with pytest.raises(RecipeError, match="no face mask"):
        PictureMaker(rendered.plan).make(_one_frame(rendered.plan, 0, 0))
