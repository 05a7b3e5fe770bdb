"""Sound, subtitles, chapters, tags, orientation, colour: what is not the picture comes from the plate."""

from __future__ import annotations

import re

import av
import pytest

from farm.media import hdr
from farm.media.deliverables import deliverable
from farm.media.probe import probe
from farm.merger.carry import losses
from tests.integration.merger.workshop import LABEL, Workshop, payloads


@pytest.mark.parametrize(
    ("suffix", "name", "subtitle"),
    [
        (".mkv", "ffv1", "subrip"),
        (".mkv", "h264", "mov_text"),
        (".mp4", "h264", "mov_text"),
        (".mp4", "ffv1", "subrip"),
        (".mov", "prores", "mov_text"),
    ],
)
def test_tracks_of_a_rich_plate(workshop: Workshop, suffix: str, name: str, subtitle: str) -> None:
    plate = workshop.rich(suffix)
    rendered = workshop.render(plate, name, 3)

    report = rendered.merge()

    assert payloads(rendered.out, "audio") == payloads(plate, "audio")
    facts = probe(rendered.out)
    found = {s.kind: s for s in facts.streams}
    assert [s.language for s in facts.streams if s.kind == "audio"] == ["eng", "ger"]
    assert [("default" in s.disposition) for s in facts.streams if s.kind == "audio"] == [False, True]
    assert found["subtitle"].codec == subtitle
    given = next(s for s in rendered.facts.streams if s.kind == "subtitle")
    # FFmpeg's QuickTime muxer itself wrote no language and no "forced" for the subtitle of the .mov plate.
    assert given.language == ("fre" if suffix != ".mov" else None)
    assert found["subtitle"].language == given.language
    assert ("forced" in found["subtitle"].disposition) == ("forced" in given.disposition)
    tags = {key.lower(): value for key, value in facts.metadata.items()}
    assert tags["title"] == "The film"
    assert tags["artist"] == "Åsa"
    assert tags["aigc"] == LABEL["AIGC"]
    assert LABEL["AIGC"].encode() in rendered.out.read_bytes()
    assert report.verified.ok
    with av.open(str(rendered.out)) as container:
        chapters = [(c["metadata"]["title"], float(c["start"] * c["time_base"])) for c in container.chapters()]
    assert chapters == [("One", 0.0), ("Two", 0.9)]


def test_attachment_is_kept_in_matroska_and_its_loss_is_named_for_mp4(workshop: Workshop) -> None:
    plate = workshop.rich(".mkv")
    rendered = workshop.render(plate, "ffv1")

    rendered.merge()

    with av.open(str(rendered.out)) as container:
        attachments: list[bytes] = [s.data for s in container.streams if s.type == "attachment"]
    assert attachments == [(workshop.media.folder / "font.ttf").read_bytes()]
    named = losses(rendered.facts, deliverable("h264"))
    assert any("attachments" in words for words in named)
    assert any("mov_text" in words for words in named)
    assert losses(rendered.facts, deliverable("ffv1")) == []


def test_timecode_is_kept(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.rich(".mov"), "prores")

    rendered.merge()

    timecodes = {s.metadata.get("timecode") for s in probe(rendered.out).streams if s.kind == "data"}
    assert "10:00:00:00" in timecodes


@pytest.mark.parametrize(
    "clip",
    [
        *("h264_rot90.mp4", "h264_rot180.mp4", "h264_rot270.mp4", "h264_mirror.mp4", "h264_mirror0.mp4"),
        *("h264_mirror180.mp4", "h264_mirror270.mp4"),
    ],
)
def test_orientation_is_kept(workshop: Workshop, clip: str) -> None:
    rendered = workshop.render(workshop.media.make(clip), "h264")

    rendered.merge()

    out = probe(rendered.out).video
    assert (out.rotation, out.display_matrix) == (rendered.facts.video.rotation, rendered.facts.video.display_matrix)
    assert (out.width, out.height) == (rendered.facts.video.width, rendered.facts.video.height)


@pytest.mark.parametrize("name", ["hevc10", "ffv1", "prores", "match", "h264"])
def test_hdr_stays_hdr(workshop: Workshop, name: str) -> None:
    rendered = workshop.render(workshop.media.make("hevc_10_pq.mp4"), name, 2)

    rendered.merge()

    plate, out = rendered.facts.video, probe(rendered.out).video
    assert (out.colour.primaries, out.colour.transfer, out.colour.matrix) == ("bt2020", "smpte2084", "bt2020nc")
    assert hdr.mastering_display(plate.side_data) is not None
    assert hdr.mastering_display(out.side_data) == hdr.mastering_display(plate.side_data)
    assert hdr.content_light(out.side_data) == hdr.content_light(plate.side_data) == (1000, 400)
    named = losses(rendered.facts, deliverable(name))
    assert any("8 bits" in words for words in named) == (name == "h264")


@pytest.mark.parametrize("name", ["h264", "ffv1", "prores"])
def test_pixel_shape_and_colour_tags_are_kept(workshop: Workshop, name: str) -> None:
    anamorphic = workshop.render(workshop.media.make("h264_anamorphic.mp4"), name)
    anamorphic.merge()
    assert probe(anamorphic.out).video.sample_aspect_ratio == anamorphic.facts.video.sample_aspect_ratio != 1
    anamorphic.out.unlink()

    codes = "colour_primaries=6:transfer_characteristics=6:matrix_coefficients=6:chroma_sample_loc_type=2"
    source = str(workshop.media.make("h264_closed.mp4"))
    plate = workshop.media.make_custom(".mp4", "-i", source, "-c", "copy", "-bsf:v", f"h264_metadata={codes}")
    tagged = workshop.render(plate, name)
    tagged.merge()
    colour = probe(tagged.out).video.colour
    assert (colour.primaries, colour.transfer, colour.matrix) == ("smpte170m", "smpte170m", "smpte170m")
    # QuickTime has no place for it in ProRes.
    assert colour.chroma_location == ("topleft" if name != "prores" else "unknown")


def test_sound_that_mp4_cannot_carry_is_converted_and_named(workshop: Workshop) -> None:
    plate = workshop.media.make_custom(
        ".mkv",
        *["-f", "lavfi", "-i", "testsrc2=size=64x36:rate=25:duration=1"],
        *["-f", "lavfi", "-i", "sine=440:duration=1", "-c:v", "libx264", "-c:a", "adpcm_ms"],
    )
    rendered = workshop.render(plate, "h264")

    rendered.merge()

    assert [s.codec for s in probe(rendered.out).streams] == ["flac"]
    assert any("flac" in words for words in losses(rendered.facts, deliverable("h264")))


@pytest.mark.parametrize("name", ["ffv1", "h264"])
def test_damaged_sound_is_copied_but_for_packets_without_a_header_which_are_listed(
    workshop: Workshop, name: str
) -> None:
    rendered = workshop.render(workshop.media.make("broken_sound.ts"), name, 2)

    report = rendered.merge()

    assert report.verified.ok
    (note,) = [note for note in report.verified.notes if "damaged" in note]
    with av.open(str(rendered.plate)) as container:
        given = sum(packet.size > 0 for packet in container.demux(container.streams.audio[0]))
    words = rf"Audio stream 1: (\d+) of {given} packets left out as damaged, the first at \d\.\d{{3}} s\."
    found = re.fullmatch(words, note)
    assert found
    (track,) = report.verified.tracks
    assert track.packets == given - int(found.group(1))


def test_damaged_sound_in_mp4_is_copied_as_it_is(workshop: Workshop) -> None:
    plate = workshop.media.make("broken_sound.mp4")
    rendered = workshop.render(plate, "h264", 2)

    rendered.merge()

    assert payloads(rendered.out, "audio") == payloads(plate, "audio") != []


def test_names_that_a_shell_or_ffmpeg_would_read_otherwise(workshop: Workshop) -> None:
    plate = workshop.folder / "-f '%03d [ä];$(x).mp4"
    plate.write_bytes(workshop.media.make("h264_audio.mp4").read_bytes())
    rendered = workshop.render(plate, "h264")
    rendered.out = workshop.folder / "-y %d'.mp4"

    rendered.merge()

    assert payloads(rendered.out, "audio") == payloads(plate, "audio")
