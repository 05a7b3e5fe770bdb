"""What happened to each face of each frame, in plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Outcome(StrEnum):
    """`swapped` or `restored`, or why a face was left as it is."""

    SWAPPED = "swapped"
    RESTORED = "restored"
    NOT_MAPPED = "not mapped"
    BELOW_THRESHOLD = "below threshold"
    OUT_OF_TIME = "out of the time range"
    OUT_OF_REGION = "out of the region"
    TOO_SMALL = "too small"
    TOO_SIDEWAYS = "too sideways"
    COVERED = "covered"
    FAILED = "failed: the swap was not finite"
    NOT_RESTORED = "not restored: the network gave no usable picture"


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True)


class FaceReport(_Plain):
    """One face: its box (x0, y0, x1, y1; coded pixels), whom it was taken for, how surely, and what became of it."""

    box: tuple[float, float, float, float]
    person: str | None
    similarity: float | None
    outcome: Outcome


class FrameReport(_Plain):
    """One frame; `faces` is empty where no face was seen or the recipe changes none.

    `unrestored`: a processor of whole frames gave nothing usable, and the frame is what it was before.
    """

    index: int
    pts: int
    faces: tuple[FaceReport, ...] = ()
    unrestored: bool = False

    @property
    def swapped(self) -> int:
        return sum(face.outcome is Outcome.SWAPPED for face in self.faces)


class Span(_Plain):
    """Frames [first, last] in a row with one outcome, and their presentation times."""

    outcome: Outcome
    first: int
    last: int
    first_pts: int
    last_pts: int


class PersonReport(_Plain):
    """One person of the plate (None: faces of nobody known): frames by outcome, and where each outcome held."""

    person: str | None
    frames: dict[Outcome, int]
    spans: tuple[Span, ...]


class RenderReport(_Plain):
    """A job or a chunk: frames, frames without a face, each person's account, and frames that could not be restored."""

    frames: int
    without_face: int
    people: tuple[PersonReport, ...]
    unrestored: int = 0


def summarise(frames: Iterable[FrameReport]) -> RenderReport:
    """The account of frames in presentation order; memory grows with the number of spans, not of frames."""
    total = empty = unrestored = 0
    counts: dict[str | None, Counter[Outcome]] = {}
    spans: dict[str | None, list[Span]] = {}
    for frame in frames:
        total += 1
        empty += not frame.faces
        unrestored += frame.unrestored
        for face in frame.faces:
            counts.setdefault(face.person, Counter())[face.outcome] += 1
            _extend(spans.setdefault(face.person, []), frame, face.outcome)
    people = tuple(
        PersonReport(person=person, frames=dict(counts[person]), spans=tuple(spans[person]))
        for person in sorted(counts, key=lambda name: (name is None, name or ""))
    )
    return RenderReport(frames=total, without_face=empty, people=people, unrestored=unrestored)


def _extend(spans: list[Span], frame: FrameReport, outcome: Outcome) -> None:
    for position in range(len(spans) - 1, max(-1, len(spans) - 4), -1):
        span = spans[position]
        if span.outcome is outcome and span.last in (frame.index, frame.index - 1):
            spans[position] = span.model_copy(update={"last": frame.index, "last_pts": frame.pts})
            return
    spans.append(Span(outcome=outcome, first=frame.index, last=frame.index, first_pts=frame.pts, last_pts=frame.pts))
