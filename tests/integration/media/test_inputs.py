"""Inputs that players and FFmpeg see differently, or whose headers and packets say more than their pictures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import av
import pytest

from farm.errors import InputError
from farm.media.deliverables import deliverable
from farm.media.packets import open_packets
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.sandbox import probe_safely
from farm.media.scan import scan_timeline
from farm.media.shape import ShapeWatch
from farm.merger.carry import losses
from tests.media_factory import MediaFactory, picture
from tests.paff import paff_stream

STRANGE = {"edit_speed", "edit_still", "edit_gap", "ordered_chapters"}


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("edit_fast.mp4", "edit_speed", "track 1 plays part 2 at 2 times its speed: its frames are taken once each"),
        ("edit_still.mp4", "edit_still", "track 1 holds the first picture of part 2 as a still: its frames are taken"),
        ("edit_gap.mp4", "edit_gap", "shows nothing for a while before part 2: the frame before lasts until then"),
        ("ordered_chapters.mkv", "ordered_chapters", "Each frame of this file is taken once, in the order of the file"),
    ],
)
def test_what_players_may_show_otherwise_is_said_by_name(media: MediaFactory, name: str, code: str, words: str) -> None:
    """The frames themselves are those of a plain decode: tests/integration/media/test_exact_frames.py."""
    told = {warning.code: warning.text for warning in probe(media.make(name)).warnings}
    assert words in told[code]
    assert set(told) & STRANGE == {code}


@pytest.mark.parametrize("name", ["h264_piped.mkv", "edit_swapped.mp4", "edit_positive.mp4", "h264_edited.mp4"])
def test_plain_chapters_and_edits_are_nothing_strange(media: MediaFactory, name: str) -> None:
    assert not {warning.code for warning in probe(media.make(name)).warnings} & STRANGE


def test_an_index_of_chapters_behind_the_pictures_is_followed(media: MediaFactory, tmp_path: Path) -> None:
    """Matroska may keep its chapters at the end, where only the index at the head tells of them."""
    data = media.make("ordered_chapters.mkv").read_bytes()
    at = data.index(b"\x10\x43\xa7\x70")
    cluster = data.index(b"\x1f\x43\xb6\x75")
    chapters, segment = data[at:cluster], data.index(b"\x18\x53\x80\x67") + 12
    rest = data[:at] + data[cluster:]
    place = len(rest) + 27 - segment
    seek = b"\x53\xab\x84\x10\x43\xa7\x70\x53\xac\x88" + place.to_bytes(8, "big")
    index = b"\x11\x4d\x9b\x74" + bytes([0x80 | len(seek) + 3]) + b"\x4d\xbb" + bytes([0x80 | len(seek)]) + seek
    path = tmp_path / "late.mkv"
    head = data[:segment]
    path.write_bytes(head + index + b"\xec\x81\0"[: 27 - len(index)] + rest[segment:] + chapters)
    assert "ordered_chapters" in {warning.code for warning in probe(path).warnings}


def test_a_picture_that_changes_its_size_is_refused_when_planned(media: MediaFactory) -> None:
    path = media.make("h264_resized.ts")
    with pytest.raises(InputError, match=r"frame 24, at 2\.400 s: The picture becomes 320×180 .* 160×90"):
        scan_timeline(path, probe(path))


def test_a_container_that_breaks_early_is_refused_by_the_probe_with_byte_and_time(media: MediaFactory) -> None:
    path = media.make("broken.apng")
    with pytest.raises(InputError, match=r"cannot be read after byte \d+, at 0\.380 s\.") as caught:
        probe_safely(path)
    assert 0 <= _broken_at(path) - _named(caught.value) < PICTURE


def test_a_container_that_breaks_behind_what_the_probe_reads_is_refused_when_planned(media: MediaFactory) -> None:
    path = media.make("broken_late.apng")
    with pytest.raises(InputError, match=r"cannot be read after byte \d+, at 8\.980 s\.") as caught:
        scan_timeline(path, probe_safely(path))
    assert 0 <= _broken_at(path) - _named(caught.value) < PICTURE


def test_a_stream_that_appears_in_the_middle_is_refused_by_name(
    media: MediaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyAV then hands out a packet of a stream unknown to it, as for a damaged transport stream (fuzz 14/457)."""
    path = media.make("h264.ts")

    class Growing:
        def __init__(self, container: Any) -> None:
            self._container = container

        def demux(self, stream: Any) -> Iterator[Any]:
            yield from islice(self._container.demux(stream), 5)
            [].pop(5)

    with open_packets(path, probe(path)) as reader:
        monkeypatch.setattr(reader, "_container", Growing(reader._container))
        with pytest.raises(InputError, match=r"after byte [1-9]\d+, at 1\.775 s: A stream appears in the middle"):
            list(reader)


PICTURE = 100
"""More bytes than one picture of the clip: FFmpeg looks at a chunk ahead of the one that it gives."""


def _broken_at(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\xff"))


def _named(error: InputError) -> int:
    return int(error.what.split("byte ")[1].split(",")[0])


SIZED = [
    (".ts", ["-c:v", "libx264", "-preset", "ultrafast", "-g", "4"]),
    (".mp4", ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:keyint=4:repeat-headers=1"]),
    (".mpg", ["-c:v", "mpeg2video", "-g", "4"]),
    (".webm", ["-c:v", "libvpx", "-g", "4", "-deadline", "realtime"]),
    (".webm", ["-c:v", "libvpx-vp9", "-g", "4", "-deadline", "realtime", "-cpu-used", "8"]),
    (".ivf", ["-c:v", "libsvtav1", "-preset", "12", "-g", "4"]),
    (".mov", ["-c:v", "prores_ks"]),
    (".avi", ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p"]),
]


@pytest.mark.parametrize(("suffix", "arguments"), SIZED, ids=[arguments[1] for _, arguments in SIZED])
def test_headers_of_another_size_are_seen_and_repeated_ones_are_not(
    media: MediaFactory, suffix: str, arguments: list[str]
) -> None:
    """Packets of a small film, then of a larger one, as a splice has them."""
    watch, seen = None, []
    for size in ("128x96", "192x128"):
        path = media.make_custom(suffix, *picture(size, seconds=0.5), "-pix_fmt", "yuv420p", *arguments)
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            watch = watch or ShapeWatch(stream.codec_context.name, stream.codec_context.extradata)
            keys = (p for p in container.demux(stream) if p.size and p.is_keyframe)
            seen.append([watch.differs(packet) for packet in islice(keys, 3)])
    assert not any(seen[0])
    assert seen[1][0]
    assert not any(seen[1][1:])


def test_a_clock_that_starts_anew_under_sound_is_refused_when_planned(media: MediaFactory) -> None:
    path = media.make("h264_stepped.ts")
    with pytest.raises(InputError, match=r"frame 48: The plate's clock starts anew, at 1\.\d+ s"):
        scan_timeline(path, probe(path))


@pytest.mark.parametrize("name", ["h264_paff.ts", "h264_paff.mkv"])
def test_pairs_of_fields_give_a_frame_each_and_no_false_warning(media: MediaFactory, name: str) -> None:
    path = media.make(name)
    facts = probe(path)
    assert {w.code for w in facts.warnings} == {"interlaced", "matrix_unknown", "no_audio"}
    frames = list(read_plate(path, facts))
    assert len(frames) == 24
    # The second frame's fields are both coded: the generator's own samples, of two moments.
    luma = frames[1].planes[0]
    assert [int(luma[0, 0]), int(luma[1, 0])] == [16 + 34 % 220, 16 + (5 + 51) % 220]
    assert paff_stream(2).count(b"\0\0\0\1") == 6


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [("hevc_dolby_vision.mp4", "dolby_vision", "Dolby Vision"), ("hevc_hdr10_plus.mp4", "hdr10_plus", "HDR10+")],
)
@pytest.mark.parametrize("wanted", ["h264", "hevc10", "ffv1", "prores", "match"])
def test_dynamic_hdr_is_seen_and_its_loss_is_named_beforehand(
    media: MediaFactory, name: str, code: str, words: str, wanted: str
) -> None:
    facts = probe(media.make(name))
    assert code in {warning.code for warning in facts.warnings}
    assert any(words in sentence and "left out" in sentence for sentence in losses(facts, deliverable(wanted)))


@pytest.mark.parametrize("name", ["wrong_duration.mp4", "wrong_duration.mkv"])
def test_durations_in_headers_do_not_count(media: MediaFactory, name: str) -> None:
    path = media.make(name)
    timeline = scan_timeline(path, probe(path))
    assert timeline.seconds(0, len(timeline)) == pytest.approx(3 if name.endswith("mp4") else 4, abs=0.01)
