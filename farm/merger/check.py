"""What must be true of the chunk files before they are joined: nothing about them is taken on trust.

Their hashes are compared while they are joined (`farm.merger.join`), which reads them anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from farm.errors import FarmError
from farm.media.encoders import EncoderPlan
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts
from farm.merger.join import ChunkFile, damaged
from farm.words import counted


def in_order(chunks: Sequence[ChunkFile], timeline: Timeline) -> list[ChunkFile]:
    """The chunks sorted by first frame; FarmError where frames are missing or come twice."""
    ordered = sorted(chunks, key=lambda chunk: chunk.facts.first)
    due = 0
    for chunk in ordered:
        first = chunk.facts.first
        if first > due:
            raise _gap(timeline, due, first)
        if first < due:
            raise damaged(chunk.facts, f"Frames {first} to {min(due, chunk.facts.last) - 1} are in two chunks.")
        due = chunk.facts.last
    if due < len(timeline):
        raise _gap(timeline, due, len(timeline))
    if due > len(timeline):
        raise damaged(ordered[-1].facts, f"The timeline has {counted(len(timeline), 'frame')}, the chunks have {due}.")
    return ordered


def _gap(timeline: Timeline, first: int, last: int) -> FarmError:
    return FarmError(
        f"The chunk of frames {first} to {last - 1} is missing.",
        where=f"merge, pts {int(timeline.pts[first])}",
        do="Render the missing frames again.",
    )


def check_chunks(chunks: Sequence[ChunkFile], timeline: Timeline, plan: EncoderPlan) -> list[ChunkFile]:
    """The chunks in order, each compared with plan, timeline and its file's size. FarmError names the first fault."""
    ordered = in_order(chunks, timeline)
    digest, extradata = plan.digest(), ordered[0].facts.extradata_sha256
    for chunk in ordered:
        facts = chunk.facts
        if fault := _against_plan(facts, timeline, plan, digest, extradata) or _against_file(chunk):
            raise damaged(facts, fault)
    return ordered


def _against_plan(facts: ChunkFacts, timeline: Timeline, plan: EncoderPlan, digest: str, extradata: str) -> str | None:
    first_pts, last_pts = int(timeline.pts[facts.first]), int(timeline.pts[facts.last - 1])
    if facts.plan_digest != digest or facts.encoder != plan.encoder:
        return f"It was encoded by {facts.encoder} under another plan than the job's."
    if facts.extradata_sha256 != extradata:
        return "Its decoder set-up data differs from the first chunk's, so a player would break at the seam."
    if facts.time_base != timeline.time_base:
        return f"Its clock ticks {facts.time_base} s, the plate's {timeline.time_base} s."
    if facts.frames != facts.last - facts.first:
        return f"It has {counted(facts.frames, 'frame')} instead of {facts.last - facts.first}."
    if (facts.first_pts, facts.last_pts) != (first_pts, last_pts):
        return f"It goes from pts {facts.first_pts} to {facts.last_pts}, the timeline from {first_pts} to {last_pts}."
    return None


def _against_file(chunk: ChunkFile) -> str | None:
    if not chunk.path.is_file():
        return "Its file is missing."
    size = chunk.path.stat().st_size
    if size != chunk.facts.size:
        return f"Its file has {size} bytes instead of {chunk.facts.size}."
    return None
