"""A merge that cannot be right says which chunk, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from farm.errors import FarmError
from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.scan import scan_timeline
from farm.media.writer import file_sha256
from farm.merger.film import Film
from farm.merger.join import ChunkFile
from farm.merger.report import VerifyReport
from farm.merger.verify import verify
from tests.integration.merger.workshop import Rendered, Workshop, remux
from tests.media_factory import ffmpeg


@pytest.fixture
def rendered(workshop: Workshop) -> Rendered:
    return workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 4)


def _missing(chunks: list[ChunkFile]) -> list[ChunkFile]:
    return [chunks[0], *chunks[2:]]


def _gone(chunks: list[ChunkFile]) -> list[ChunkFile]:
    chunks[1].path.unlink()
    return chunks


def _swapped(chunks: list[ChunkFile]) -> list[ChunkFile]:
    return [
        chunks[0],
        ChunkFile(chunks[2].path, chunks[1].facts),
        ChunkFile(chunks[1].path, chunks[2].facts),
        chunks[3],
    ]


def _twice(chunks: list[ChunkFile]) -> list[ChunkFile]:
    return [*chunks, chunks[1]]


def _cut_short(chunks: list[ChunkFile]) -> list[ChunkFile]:
    data = chunks[1].path.read_bytes()
    chunks[1].path.write_bytes(data[: len(data) // 2])
    return chunks


def _one_bit(chunks: list[ChunkFile]) -> list[ChunkFile]:
    """Of the same size, in the last chunk: it is found while the others are joined."""
    data = bytearray(chunks[3].path.read_bytes())
    data[len(data) // 2] ^= 1
    chunks[3].path.write_bytes(data)
    return chunks


def _cut_short_and_signed(chunks: list[ChunkFile]) -> list[ChunkFile]:
    """Damage that happened before the writer noted size and hash."""
    _cut_short(chunks)
    facts = chunks[1].facts.model_copy(
        update={"size": chunks[1].path.stat().st_size, "sha256": file_sha256(chunks[1].path)}
    )
    return [chunks[0], ChunkFile(chunks[1].path, facts), *chunks[2:]]


def _other_header(chunks: list[ChunkFile]) -> list[ChunkFile]:
    facts = chunks[1].facts.model_copy(update={"extradata_sha256": "0" * 64})
    return [chunks[0], ChunkFile(chunks[1].path, facts), *chunks[2:]]


def _all_other_headers(chunks: list[ChunkFile]) -> list[ChunkFile]:
    return [ChunkFile(c.path, c.facts.model_copy(update={"extradata_sha256": "0" * 64})) for c in chunks]


def _other_plan(chunks: list[ChunkFile]) -> list[ChunkFile]:
    facts = chunks[1].facts.model_copy(update={"plan_digest": "0" * 64})
    return [chunks[0], ChunkFile(chunks[1].path, facts), *chunks[2:]]


def _other_pts(chunks: list[ChunkFile]) -> list[ChunkFile]:
    facts = chunks[1].facts.model_copy(update={"last_pts": chunks[1].facts.last_pts + 1})
    return [chunks[0], ChunkFile(chunks[1].path, facts), *chunks[2:]]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_missing, "frames 12 to 23 is missing"),
        (_gone, "file is missing"),
        (_swapped, "sha256|bytes instead"),
        (_one_bit, "sha256 is not"),
        (_twice, "in two chunks"),
        (_cut_short, "bytes instead of"),
        (_cut_short_and_signed, "cannot be opened"),
        (_other_header, "set-up data differs"),
        (_all_other_headers, "set-up data is"),
        (_other_plan, "another plan"),
        (_other_pts, "It goes from pts"),
    ],
)
def test_a_spoilt_chunk_is_named(
    rendered: Rendered, spoil: Callable[[list[ChunkFile]], list[ChunkFile]], words: str
) -> None:
    with pytest.raises(FarmError, match=words) as caught:
        rendered.merge(chunks=spoil(rendered.chunks))

    assert "12" in str(caught.value) or "pts" in str(caught.value)
    assert not rendered.out.exists()
    assert not list(rendered.out.parent.glob(".*.part*"))


def test_chunks_may_come_in_any_order(rendered: Rendered) -> None:
    report = rendered.merge(chunks=rendered.chunks[::-1])

    assert report.verified.ok


def test_a_merge_that_fails_keeps_the_file_that_was_there(rendered: Rendered) -> None:
    rendered.out.write_bytes(b"the deliverable of an earlier attempt")

    with pytest.raises(FarmError):
        rendered.merge(chunks=_cut_short(rendered.chunks))

    assert rendered.out.read_bytes() == b"the deliverable of an earlier attempt"


def test_a_plate_that_is_gone_is_an_error_without_its_name(rendered: Rendered, tmp_path: Path) -> None:
    rendered.plate = tmp_path / "secret-name.mp4"

    with pytest.raises(FarmError) as caught:
        rendered.merge()

    assert "secret-name" not in str(caught.value)
    assert not rendered.out.exists()


def _verdict(rendered: Rendered, path: Path, part_frames: int = 480) -> VerifyReport:
    film = Film.of(rendered.plate, rendered.facts, rendered.timeline, rendered.plan)
    return verify(path, film, [chunk.facts for chunk in rendered.chunks], threads=4, part_frames=part_frames)


@pytest.mark.parametrize("name", ["h264", "hevc10", "av1", "prores", "dnxhr", "ffv1", "review"])
def test_parts_decoded_side_by_side_say_what_one_decode_says(workshop: Workshop, name: str) -> None:
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), name, 4)
    rendered.merge()

    whole, parts = _verdict(rendered, rendered.out), _verdict(rendered, rendered.out, part_frames=12)

    assert whole.ok
    assert parts == whole


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-frames:v", "47"], "count"),
        (["-an"], "track_missing"),
        (["-bsf:a", "noise=amount=-1"], "track"),
        (["-bsf:v", "setts=pts=PTS+gt(N\\,20)*100"], "pts"),
        (["-bsf:v", "h264_metadata=matrix_coefficients=9"], "colour"),
        (["-map_chapters", "-1", "-metadata:s:v", "rotate=0", "-t", "0.5"], "count"),
    ],
)
@pytest.mark.parametrize("part_frames", [480, 12])
def test_verify_sees(workshop: Workshop, arguments: list[str], code: str, part_frames: int) -> None:
    clip = "h264_bt601.mp4" if code == "colour" else "h264_audio.mp4"
    rendered = workshop.render(workshop.media.make(clip), "h264", 2)
    rendered.merge()
    assert _verdict(rendered, rendered.out).ok

    spoilt = remux(rendered.out, workshop.folder / "spoilt.mp4", *arguments)

    report = _verdict(rendered, spoilt, part_frames)
    assert not report.ok
    assert code in {finding.code for finding in report.findings}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["-metadata:s:a:1", "language=eng"], "language"), (["-disposition:a:1", "0"], "disposition")],
)
def test_verify_sees_lost_marks_of_a_track(workshop: Workshop, arguments: list[str], code: str) -> None:
    rendered = workshop.render(workshop.rich(".mkv"), "ffv1")
    rendered.merge()

    spoilt = remux(rendered.out, workshop.folder / "spoilt.mkv", *arguments)

    found = {finding.code for finding in _verdict(rendered, spoilt).findings}
    assert code in found


@pytest.mark.parametrize("part_frames", [480, 12])
def test_verify_sees_another_picture_at_a_seam(workshop: Workshop, part_frames: int) -> None:
    """Black where the second chunk begins: same count, same clock."""
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 2)
    rendered.merge()
    spoilt = workshop.folder / "spoilt.mp4"
    black = "drawbox=color=black:t=fill:enable='eq(n,24)'"
    same = ["-c:a", "copy", "-enc_time_base", "demux", "-fps_mode", "passthrough", "-video_track_timescale", "12288"]
    ffmpeg("-i", str(rendered.out), "-vf", black, "-c:v", "libx264", "-preset", "ultrafast", *same, str(spoilt))

    findings = _verdict(rendered, spoilt, part_frames).findings

    assert [(finding.code, finding.frame) for finding in findings] == [("seam", 24)]


@pytest.mark.parametrize("clip", ["h264_audio.mp4", "h264_open.mkv", "h264.ts"])
def test_seams_are_compared_with_the_plate_where_nothing_was_changed(workshop: Workshop, clip: str) -> None:
    """Chunks of the wrong picture, which their writer swears to: the plate says otherwise."""
    rendered = workshop.render(workshop.media.make(clip), "h264", 3)
    rendered.timeline = scan_timeline(rendered.plate, rendered.facts)
    report = rendered.merge(untouched=True)
    assert report.verified.ok
    assert report.verified.seam_frames == 4

    rendered.chunks[1] = workshop.inverted(rendered)
    with pytest.raises(FarmError, match="at a seam, is not what the plate shows"):
        rendered.merge(untouched=True)
    assert rendered.merge(untouched=False).verified.seam_frames == 0


def test_verify_sees_one_changed_sample(workshop: Workshop) -> None:
    plate = workshop.media.make("h264_closed.mp4")
    rendered = workshop.render(plate, "ffv1", 3)
    other = rendered.chunks[1].facts.model_copy(update={"frames_sha256": "0" * 64})
    rendered.chunks[1] = ChunkFile(rendered.chunks[1].path, other)

    with pytest.raises(FarmError, match="samples of frames 24 to 47"):
        rendered.merge()


def test_a_broken_picture_is_not_passed_over(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_closed.mp4"), "ffv1", 1)
    rendered.merge()
    data = bytearray(rendered.out.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    spoilt = workshop.folder / "spoilt.mkv"
    spoilt.write_bytes(data)

    assert not _verdict(rendered, spoilt).ok


def test_the_plan_of_a_plate_does_not_depend_on_when_it_is_made(rendered: Rendered) -> None:
    again = chunk_encoder(deliverable("h264"), rendered.facts, hardware=False, threads=2)

    assert again.digest() == rendered.plan.digest()


def test_a_spliced_plate_whose_sound_would_slip_is_not_passed_over(workshop: Workshop) -> None:
    """Planning refuses it; should one get through, the merge hears it."""
    rendered = workshop.render(workshop.media.make("h264.ts"), "h264", 2)
    rendered.plate = workshop.media.make("h264_stepped.ts")

    with pytest.raises(FarmError, match="clock jumps"):
        rendered.merge()
