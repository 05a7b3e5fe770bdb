"""What a file is, before a job is made of it: facts and warnings in words, or the reason why it cannot be used."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from av.container import InputContainer
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from farm.errors import InputError
from farm.media import limits
from farm.media.container import container_of, open_container, picture_stream, time_base_of
from farm.media.facts import ColourFacts, PlateFacts, StreamFacts, VideoFacts
from farm.media.firstframe import FirstFrame, first_frame, stream_side_data
from farm.media.names import FIELD_ORDERS, MATRICES, PRIMARIES, RANGES, TRANSFERS, name_of
from farm.media.packets import open_packets
from farm.media.planes import is_full_range_format, planar_format
from farm.media.structure import structure_warnings
from farm.media.warnings import HeadPacket, warnings_for

_HEAD_PACKETS = 400
_LAST_ENTRIES = 64


def probe(path: Path) -> PlateFacts:
    """Facts and warnings of a plate, from its headers, its first packets and its first picture.

    Reads the file alone (no playlist, no network), in this process; `farm.media.sandbox.probe_safely` does the same
    in a process with limits, for files from outside. Raises InputError or NotFoundError, with the reason in words.
    """
    where = "the plate"
    with open_container(path, where=where) as container:
        stream = picture_stream(container, where=where)
        name, duration = container_of(container, path)
        _check_limits(stream, duration, where)
        _check_whole(container, name, path.stat().st_size, where)
        streams = tuple(_stream_facts(s) for s in container.streams if s.index != stream.index)
        stated = stream_side_data(container, stream.index)
        first = first_frame(container, stream, where)
        video = _video_facts(stream, first, stated)
        facts = PlateFacts(
            container=name,
            size=path.stat().st_size,
            duration=duration,
            video=video,
            streams=streams,
            chapters=len(container.chapters()),
            metadata=dict(container.metadata),
            frames=stream.frames or None,
        )
    head = _head(path, facts)
    warnings = (*structure_warnings(path, facts.container), *warnings_for(facts, head))
    return facts.model_copy(update={"warnings": warnings})


def _check_limits(stream: VideoStream, duration: Fraction | None, where: str) -> None:
    context = stream.codec_context
    if context.name == "webp":
        raise InputError("This WebP is a single picture.", where=where, do="Give a file with moving pictures.")
    if context.name not in limits.VIDEO_DECODERS:
        raise InputError(
            f"The picture's codec {context.name!r} is not supported.",
            where=where,
            do="Convert it to ProRes, H.264, HEVC, AV1 or FFV1.",
        )
    if max(context.width, context.height) > limits.MAX_SIDE:
        raise InputError(
            f"The picture is {context.width}×{context.height}; no side may be over {limits.MAX_SIDE}.",
            where=where,
            do="Scale it down.",
        )
    hours, most = float(duration or 0) / 3600, limits.MAX_SECONDS // 3600
    if hours > most:
        raise InputError(
            f"The file claims to last {hours:.0f} hours; {most} is the limit.",
            where=where,
            do="Cut it into parts.",
        )


def _check_whole(container: InputContainer, name: str, size: int, where: str) -> None:
    """InputError when the index of an MP4/MOV file speaks of packets behind the end of the file."""
    if "mp4" not in name.split(","):
        return
    ends = [0]
    for stream in container.streams:
        entries = stream.index_entries
        ends += [entries[n].pos + entries[n].size for n in range(max(0, len(entries) - _LAST_ENTRIES), len(entries))]
    if max(ends) > size:
        raise InputError(
            f"The file was cut off: its index speaks of {max(ends)} bytes and {size} are there.",
            where=where,
            do="Copy or upload it again.",
        )


def _video_facts(stream: VideoStream, first: FirstFrame, stated: dict[str, str]) -> VideoFacts:
    context, picture = stream.codec_context, first.picture
    fmt = planar_format(picture.format.name)
    return VideoFacts(
        stream_index=stream.index,
        codec=context.codec.canonical_name,
        profile=context.profile,
        codec_tag=_tag(context),
        width=picture.width,
        height=picture.height,
        sample_format=fmt.name,
        bit_depth=fmt.depth,
        time_base=time_base_of(stream),
        start_pts=stream.start_time,
        average_rate=stream.average_rate,
        nominal_rate=stream.guessed_rate,
        sample_aspect_ratio=stream.sample_aspect_ratio or Fraction(1),
        rotation=int(picture.rotation) % 360 if first.display_matrix else 0,
        display_matrix=first.display_matrix,
        field_order=_field_order(stream, first),
        bit_rate=context.bit_rate,
        colour=_colour(stream, first),
        side_data=stated | first.side_data,
    )


def _tag(context: Any) -> str | None:
    try:
        tag = str(context.codec_tag)
    except UnicodeDecodeError:
        return None
    return tag if tag.isprintable() else None


def _field_order(stream: VideoStream, first: FirstFrame) -> str:
    stated = name_of(FIELD_ORDERS, stream.codec_context.field_order)
    if stated in ("unknown", "progressive") and first.picture.interlaced_frame:
        return "tt"
    return stated


def _colour(stream: VideoStream, first: FirstFrame) -> ColourFacts:
    picture, context = first.picture, stream.codec_context

    def tag(table: dict[int, str], of_picture: int, of_stream: int) -> str:
        said = name_of(table, of_picture)
        return said if said != "unknown" else name_of(table, of_stream)

    value_range = tag(RANGES, picture.color_range, context.color_range)
    return ColourFacts(
        primaries=tag(PRIMARIES, picture.color_primaries, context.color_primaries),
        transfer=tag(TRANSFERS, picture.color_trc, context.color_trc),
        matrix=tag(MATRICES, picture.colorspace, context.colorspace),
        range="pc" if is_full_range_format(picture.format.name) else value_range,
        chroma_location=first.chroma_location,
    )


def _stream_facts(stream: Stream) -> StreamFacts:
    context: Any = stream.codec_context
    detail: dict[str, Any] = {}
    if stream.type == "audio" and context is not None:
        detail = {"sample_rate": context.sample_rate, "channels": context.channels, "layout": context.layout.name}
    elif stream.type == "video" and context is not None:
        detail = {"width": context.width, "height": context.height}
    codec = context.codec.canonical_name if context is not None else getattr(stream, "name", None)
    return StreamFacts(
        index=stream.index,
        kind=stream.type,
        codec=str(codec or "unknown"),
        time_base=stream.time_base,
        start_pts=stream.start_time,
        language=stream.language,
        disposition=tuple(str(d.name) for d in Disposition if d & stream.disposition),
        metadata=dict(stream.metadata),
        detail=detail,
    )


def _head(path: Path, facts: PlateFacts) -> list[HeadPacket]:
    """The first packets' clocks, for the warnings that depend on them. InputError where the container breaks there."""
    with open_packets(path, facts) as reader:
        found = [
            HeadPacket(p.pts, p.dts, p.duration or 0, p.is_keyframe, p.is_discard, p.is_corrupt)
            for _, p in islice(reader, _HEAD_PACKETS)
        ]
        reader.require_whole()
    return found
