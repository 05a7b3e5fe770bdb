"""The ffmpeg arguments that put the joined picture and the plate's other streams into one file. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from farm.media import hdr
from farm.media.deliverables import Source
from farm.media.encoders import EncoderPlan, colour_numbers
from farm.media.facts import PlateFacts, StreamFacts, VideoFacts
from farm.media.timecode import start_timecode
from farm.media.timeline import Timeline
from farm.merger.adts import runs
from farm.merger.carry import COVER_TYPES, Carried, Way, is_cover
from farm.merger.clock import movie_timescale
from farm.merger.film import Film
from farm.merger.loudness import filter_for

# What a container wrote about its old content; the new muxer writes its own.
_STALE_GLOBAL = ("encoder", "major_brand", "minor_version", "compatible_brands")
_STALE_PICTURE = (
    *("encoder", "rotate", "vendor_id", "DURATION", "BPS", "NUMBER_OF_FRAMES", "NUMBER_OF_BYTES"),
    *("_STATISTICS_TAGS", "_STATISTICS_WRITING_APP", "_STATISTICS_WRITING_DATE_UTC"),
)


def stale_tags() -> frozenset[str]:
    """Global tags that describe the plate's own file, so that a deliverable must not have them."""
    return frozenset(_STALE_GLOBAL)


_MP4_FAMILY = frozenset({"mp4", "mov"})


def mux_arguments(
    film: Film,
    out: Path,
    *,
    first_dts: int,
    reel: Path | None = None,
    covers: Mapping[int, Path] | None = None,
    index_bytes: int = 0,
) -> list[str]:
    """Arguments for `farm.media.ffmpeg.run`.

    The joined picture is the `reel` (see `farm.merger.reel`), or is fed to standard input (see `farm.merger.join`).
    `first_dts` is what fragmented MP4 took off the picture's time stamps, in ticks of 1/denominator of the time base.
    `covers` are files with the cover pictures of the plate's streams of that index, which become attachments.
    `index_bytes` reserves that much room for MP4's index at the front; with 0 all is written again behind the index.
    """
    facts, plan = film.facts, film.plan
    kept = "1" if plan.carries_tracks else "-1"
    arguments = ["-y", "-copyts", *_inputs(film, reel), "-map_metadata", kept, "-map_chapters", kept]
    arguments += ["-c", "copy", "-strict", "-2", "-max_muxing_queue_size", "4096"]
    offset = first_dts + int(film.shift * film.timeline.time_base.denominator)
    number = 0
    for index, stream in _in_plate_order(facts):
        if stream is None:
            arguments += ["-map", "0:v:0", *_picture_output(number, index, facts, plan, offset)]
            number += 1
            continue
        item = next(c for c in film.carried if c.index == index)
        if item.way is not Way.LEAVE_OUT and not is_cover(stream):
            arguments += ["-map", f"1:{index}", *_track_output(number, stream, item), *_loudness(number, stream, film)]
            if numbers := film.dropped.get(index):
                chosen = "+".join(f"between(n,{first},{last})" for first, last in runs(numbers))
                arguments += [f"-bsf:{number}", f"noise=drop='{chosen}'"]
            number += 1
    for index, path in (covers or {}).items():
        arguments += _cover_output(number, path, next(s for s in facts.streams if s.index == index))
        number += 1
    for key, value in [*((key, "") for key in _STALE_GLOBAL), *film.metadata.items()]:
        arguments += ["-metadata", f"{key}={value}"]
    arguments += _container_options(facts, film.timeline, plan, index_bytes)
    return [*arguments, "-f", plan.container, f"file:{out.absolute()}"]


def _inputs(film: Film, reel: Path | None) -> list[str]:
    """The joined picture, and the plate. The demuxer is named and only files may be opened: a plate cannot make ffmpeg
    read anything else."""
    protocols, joined = ("pipe", "pipe:0") if reel is None else ("concatf,file", f"concatf:file:{reel.absolute()}")
    arguments = [*_picture_input(film.facts.video, film.plan), "-protocol_whitelist", protocols]
    arguments += ["-f", "mov" if film.plan.chunk_container == "mov" else "mp4", "-i", joined]
    if film.shift:
        arguments += ["-itsoffset", f"{float(film.shift):.6f}"]
    demuxer = film.facts.container.split(",")[0]
    return [*arguments, "-protocol_whitelist", "file", "-f", demuxer, "-i", f"file:{film.plate.absolute()}"]


def _in_plate_order(facts: PlateFacts) -> list[tuple[int, StreamFacts | None]]:
    streams: list[tuple[int, StreamFacts | None]] = [(stream.index, stream) for stream in facts.streams]
    return sorted([*streams, (facts.video.stream_index, None)], key=lambda pair: pair[0])


def _picture_input(video: VideoFacts, plan: EncoderPlan) -> list[str]:
    """What the picture stream carries beside its packets: rotation and HDR10 metadata."""
    arguments = orientation_arguments(video)
    if plan.source is Source.PICTURE:
        display, light = hdr.mastering_display(video.side_data), hdr.content_light(video.side_data)
        arguments += ["-mastering_display", display] if display else []
        arguments += ["-content_light", f"{light[0]},{light[1]}"] if light else []
    return arguments


# FFmpeg's options turn counter-clockwise and then mirror; their matrices, by signs of (a, b, c, d).
_ORIENTATIONS: dict[tuple[int, ...], tuple[str, ...]] = {
    (1, 0, 0, 1): (),
    (0, -1, 1, 0): ("-display_rotation", "90"),
    (-1, 0, 0, -1): ("-display_rotation", "180"),
    (0, 1, -1, 0): ("-display_rotation", "270"),
    (-1, 0, 0, 1): ("-display_rotation", "0", "-display_hflip"),
    (1, 0, 0, -1): ("-display_rotation", "0", "-display_vflip"),
    (0, -1, -1, 0): ("-display_rotation", "90", "-display_hflip"),
    (0, 1, 1, 0): ("-display_rotation", "270", "-display_hflip"),
}


def orientation_arguments(video: VideoFacts) -> list[str]:
    """The options that give the picture stream the plate's rotation and mirroring."""
    if video.display_matrix is None:
        return ["-display_rotation", str(video.rotation)] if video.rotation else []
    a, b, _, c, d = video.display_matrix[:5]
    signs = tuple((value > 0) - (value < 0) for value in (a, b, c, d))
    found = _ORIENTATIONS.get(signs)
    return list(found) if found is not None else ["-display_rotation", str(video.rotation)]


def _picture_output(number: int, index: int, facts: PlateFacts, plan: EncoderPlan, offset: int) -> list[str]:
    arguments = [f"-map_metadata:s:{number}", f"1:s:{index}", f"-disposition:{number}", "default"]
    for key in _STALE_PICTURE:
        arguments += [f"-metadata:s:{number}", f"{key}="]
    timecode = start_timecode(facts.metadata, *(stream.metadata for stream in facts.streams))
    if timecode is not None and plan.container in _MP4_FAMILY:
        arguments += [f"-metadata:s:{number}", f"timecode={timecode}"]
    for option, value in colour_numbers(plan.colour).items():
        arguments += [f"-{option}:{number}", str(value)]
    if plan.field_order not in ("progressive", "unknown"):
        arguments += [f"-field_order:{number}", plan.field_order]
    if plan.sample_aspect_ratio not in (0, 1):
        shape = plan.sample_aspect_ratio * Fraction(plan.width, plan.height)
        arguments += [f"-aspect:{number}", f"{shape.numerator}:{shape.denominator}"]
    if plan.tag is not None and plan.container in _MP4_FAMILY:
        arguments += [f"-tag:{number}", plan.tag]
    if offset:
        arguments += [f"-bsf:{number}", f"setts=pts=PTS+{offset}:dts=DTS+{offset}"]
    return arguments


def _track_output(number: int, stream: StreamFacts, item: Carried) -> list[str]:
    arguments = [f"-map_metadata:s:{number}", f"1:s:{stream.index}"]
    arguments += [f"-disposition:{number}", "+".join(stream.disposition) or "0"]
    if item.way is Way.CONVERT:
        arguments += [f"-c:{number}", item.codec, f"-metadata:s:{number}", "encoder="]
    return arguments


_MOST_SAMPLES = 96_000
"""Samples a second of AAC, at most; loudnorm gives 192,000 where it holds peaks down."""
_AAC_BITS = 128_000


def _loudness(number: int, stream: StreamFacts, film: Film) -> list[str]:
    """What brings a sound to the norm, where one is asked for."""
    norm, measured = film.plan.loudness, film.loudness.get(stream.index)
    if norm is None or measured is None:
        return []
    arguments = [f"-filter:{number}", filter_for(norm, measured)]
    arguments += [f"-ar:{number}", str(min(_sample_rate(stream), _MOST_SAMPLES))]
    bits = _AAC_BITS * int(stream.detail.get("channels") or 2)
    return [*arguments, f"-b:{number}", str(bits)] if film.plan.container == "mp4" else arguments


def _cover_output(number: int, path: Path, stream: StreamFacts) -> list[str]:
    kind = COVER_TYPES[stream.codec]
    tags = ["-metadata:s:" + str(number), f"mimetype={kind}"]
    tags += ["-metadata:s:" + str(number), f"filename=cover.{kind.removeprefix('image/')}"]
    return ["-attach", str(path.absolute()), *tags]


# Bytes of MP4's tables a sample, at most: size 4, decoding and display time 8 each, key 4, place in the file 20.
_INDEX_PICTURE, _INDEX_SOUND = 44, 32
_INDEX_BASE = 256 * 1024
_SOUND_SAMPLES = 512
"""Samples of sound in a packet, at least: AAC has 1024, MP3 576."""
_INDEX_SHARE = 100


def index_room(film: Film, size: int) -> int:
    """Bytes to reserve for the index of an MP4 whose picture takes `size` bytes; 0 where that is over a hundredth.

    With the index in front a player begins at once. Writing all of a film a second time to put it there costs as much
    as the merge itself, so room is left for it; for small films the second time costs nothing and no byte is wasted.
    """
    if film.plan.container != "mp4":
        return 0
    seconds = film.timeline.seconds(0, len(film.timeline))
    kinds = [stream.kind for stream in film.facts.streams]
    packets = seconds * sum(_sample_rate(s) / _SOUND_SAMPLES for s in film.facts.streams if s.kind == "audio")
    room = _INDEX_BASE + _INDEX_PICTURE * len(film.timeline) * (1 + kinds.count("video")) + int(_INDEX_SOUND * packets)
    return room if room * _INDEX_SHARE <= size else 0


def _sample_rate(stream: StreamFacts) -> int:
    return int(stream.detail.get("sample_rate") or 48000)


def _container_options(facts: PlateFacts, timeline: Timeline, plan: EncoderPlan, index_bytes: int) -> list[str]:
    # Any other setting lets the muxer move all tracks to make the first time stamp 0.
    arguments = ["-avoid_negative_ts", "disabled"]
    if plan.container in _MP4_FAMILY:
        flags = "+use_metadata_tags" + ("+faststart" if plan.container == "mp4" and not index_bytes else "")
        arguments += ["-moov_size", str(index_bytes)] if index_bytes else []
        arguments += ["-movflags", flags, "-video_track_timescale", str(timeline.time_base.denominator)]
        arguments += ["-movie_timescale", str(movie_timescale(facts, timeline))]
    return arguments
