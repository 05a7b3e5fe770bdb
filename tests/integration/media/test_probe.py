"""What probing says of good files, in facts and warnings, and of bad ones, in reasons."""

from __future__ import annotations

import base64
from fractions import Fraction
from pathlib import Path

import pytest

from farm.errors import InputError, NotFoundError
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from tests.media_factory import MediaFactory


def codes(facts: PlateFacts) -> set[str]:
    return {w.code for w in facts.warnings} - {"matrix_unknown", "no_audio"}


@pytest.mark.parametrize(
    ("name", "warnings"),
    [
        ("h264_closed.mp4", set()),
        ("h264_open.mkv", {"open_gop"}),
        ("hevc_open.mp4", {"open_gop"}),
        ("h264_vfr.mp4", {"vfr", "rate_label"}),
        ("h264_2997.mkv", set()),
        ("h264_edited.mp4", {"edit_list"}),
        ("h264_rot90.mp4", {"rotated"}),
        ("h264_mirror.mp4", {"rotated", "mirrored"}),
        ("h264_anamorphic.mp4", {"non_square"}),
        ("h264_full.mp4", {"full_range"}),
        ("h264_mbaff.ts", {"interlaced"}),
        ("hevc_10_pq.mp4", {"open_gop", "hdr"}),
        ("hevc_10_hlg.mkv", {"hdr"}),
        ("h264_piped.mkv", {"open_gop"}),
    ],
)
def test_warnings(media: MediaFactory, name: str, warnings: set[str]) -> None:
    facts = probe(media.make(name))
    assert codes(facts) == warnings
    assert all(w.text.endswith(".") for w in facts.warnings)


def test_facts_of_an_hdr_plate(media: MediaFactory) -> None:
    facts = probe(media.make("hevc_10_pq.mp4"))
    video = facts.video
    assert (video.codec, video.profile, video.sample_format, video.bit_depth) == ("hevc", "Main 10", "yuv420p10le", 10)
    assert video.colour.model_dump() == {
        "primaries": "bt2020",
        "transfer": "smpte2084",
        "matrix": "bt2020nc",
        "range": "tv",
        "chroma_location": "left",
    }
    assert len(base64.b64decode(video.side_data["Mastering display metadata"])) >= 80
    assert base64.b64decode(video.side_data["Content light level metadata"])[:4] == (1000).to_bytes(4, "little")
    assert PlateFacts.model_validate_json(facts.model_dump_json()) == facts


def test_sound_comes_as_another_stream_and_its_absence_is_said(media: MediaFactory) -> None:
    with_sound = probe(media.make("h264_audio.mp4"))
    (sound,) = with_sound.streams
    assert (sound.kind, sound.codec, sound.detail["sample_rate"]) == ("audio", "aac", 48000)
    assert "no_audio" not in {w.code for w in with_sound.warnings}
    assert "no_audio" in {w.code for w in probe(media.make("h264_closed.mp4")).warnings}


def test_cover_art_is_not_the_picture(media: MediaFactory) -> None:
    facts = probe(media.make("h264_cover.mp4"))
    assert (facts.video.codec, facts.video.width) == ("h264", 320)
    cover = next(s for s in facts.streams if s.kind == "video")
    assert "attached_pic" in cover.disposition


def test_clocks_and_shapes_are_exact(media: MediaFactory) -> None:
    assert probe(media.make("h264_23976.mp4")).video.average_rate == Fraction(24000, 1001)
    assert probe(media.make("h264_one.mp4")).frames == 1
    turned = probe(media.make("h264_rot90.mp4")).video
    assert (turned.rotation, turned.width, turned.height) == (90, 320, 180)
    assert probe(media.make("h264_anamorphic.mp4")).video.sample_aspect_ratio == Fraction(239, 100) / Fraction(16, 9)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty.mp4", "empty"),
        ("text.mp4", "text file"),
        ("script.mp4", "text file"),
        ("truncated.mp4", "moov"),
        ("sound_only.mp4", "no video stream"),
    ],
)
def test_unusable_files_are_refused_with_the_reason(media: MediaFactory, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        probe(media.make(name))
    assert caught.value.do
    assert str(media.folder) not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        probe(tmp_path / "nothing.mp4")
    with pytest.raises(InputError, match="not a file"):
        probe(tmp_path)


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.mkv"
    path.write_bytes(bytes((i * i * 7 + i // 3) % 251 for i in range(50_000)))
    with pytest.raises(InputError, match="No supported container"):
        probe(path)


@pytest.mark.parametrize(
    "script",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{film}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {film}\n",
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period/></MPD>',
    ],
)
@pytest.mark.parametrize("suffix", [".mp4", ".m3u8", ".mpd", ".ffconcat"])
def test_scripts_that_name_other_files_are_never_followed(
    media: MediaFactory, tmp_path: Path, script: str, suffix: str
) -> None:
    path = tmp_path / f"list{suffix}"
    path.write_text(script.format(film=media.make("h264_closed.mp4")))
    with pytest.raises(InputError):
        probe(path)


@pytest.mark.parametrize(
    "name",
    [
        "-rf.mp4",
        "it's.mp4",
        'a "b".mp4',
        "100%d.mp4",
        "[x](y).mp4",
        "новый фильм 映画.mp4",
        "http:x.mp4",
        "a" * 251 + ".mp4",
    ],
)
def test_names_do_not_matter(media: MediaFactory, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(media.make("h264_closed.mp4").read_bytes())
    assert probe(path).video.width == 320
