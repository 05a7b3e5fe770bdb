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
    TOO_BLURRED = "too blurred"
    TOO_SIDEWAYS = "too sideways"
    COVERED = "covered"
    FAILED = "failed: the swap was not finite"
    NOT_RESTORED = "not restored: the network gave no usable picture"


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True)


class FaceReport(_Plain):
    """One face: its box (x0, y0, x1, y1; coded pixels), whom it was taken for, how surely, and what became of it.

    `redone`: a network's first answer was no picture, and it was made again in full precision.
    """

    box: tuple[float, float, float, float]
    person: str | None
    similarity: float | None
    outcome: Outcome
    redone: bool = False


class FrameReport(_Plain):
    """One frame; `faces` is empty where no face was seen.

    `unrestored`: a processor of whole frames gave nothing usable, and the frame is what it was before. `looked`: faces
    were looked for; False where the recipe changes none.
    """

    index: int
    pts: int
    faces: tuple[FaceReport, ...] = ()
    unrestored: bool = False
    looked: bool = True

    @property
    def swapped(self) -> int:
        return sum(face.outcome is Outcome.SWAPPED for face in self.faces)


class Stretch(_Plain):
    """Frames [first, last] in a row, and their presentation times."""

    first: int
    last: int
    first_pts: int
    last_pts: int


class Span(Stretch):
    """Frames in a row with one outcome."""

    outcome: Outcome


class PersonReport(_Plain):
    """One person of the plate (None: faces of nobody known): frames by outcome, and where each outcome held."""

    person: str | None
    frames: dict[Outcome, int]
    spans: tuple[Span, ...]


class RenderReport(_Plain):
    """A job or a chunk.

    Attributes
    ----------
    frames: all of them. not_looked: those in which the recipe looks for no face, or that were accepted as they are.
    without_face, empty: frames in which no face was seen, how many and where.
    people: each person's account. unrestored, unrestored_in: frames that could not be restored as a whole.
    redone: frames of which a face was made again in full precision, since the first answer was no picture.
    """

    frames: int
    without_face: int
    people: tuple[PersonReport, ...]
    unrestored: int = 0
    not_looked: int = 0
    empty: tuple[Stretch, ...] = ()
    unrestored_in: tuple[Stretch, ...] = ()
    redone: tuple[Stretch, ...] = ()


def summarise(frames: Iterable[FrameReport]) -> RenderReport:
    """The account of frames in presentation order; memory grows with the number of spans, not of frames."""
    return joined(map(_alone, frames))


def _alone(frame: FrameReport) -> RenderReport:
    """The account of one frame."""
    here = {"first": frame.index, "last": frame.index, "first_pts": frame.pts, "last_pts": frame.pts}
    stretch = (Stretch(**here),)
    empty = frame.looked and not frame.faces
    outcomes: dict[str | None, list[Outcome]] = {}
    for face in frame.faces:
        outcomes.setdefault(face.person, []).append(face.outcome)
    return RenderReport(
        frames=1,
        without_face=int(empty),
        people=tuple(
            PersonReport(person=person, frames=Counter(theirs), spans=tuple(Span(outcome=o, **here) for o in theirs))
            for person, theirs in outcomes.items()
        ),
        unrestored=int(frame.unrestored),
        not_looked=int(not frame.looked),
        empty=stretch if empty else (),
        unrestored_in=stretch if frame.unrestored else (),
        redone=stretch if any(face.redone for face in frame.faces) else (),
    )


def joined(reports: Iterable[RenderReport]) -> RenderReport:
    """The account of a job from those of its chunks, in order; what goes on over a seam is one span."""
    total = without = unrestored = not_looked = 0
    empty: list[Stretch] = []
    unrestored_in: list[Stretch] = []
    redone: list[Stretch] = []
    counts: dict[str | None, Counter[Outcome]] = {}
    spans: dict[str | None, list[Span]] = {}
    for report in reports:
        total += report.frames
        without += report.without_face
        unrestored += report.unrestored
        not_looked += report.not_looked
        for known, more in ((empty, report.empty), (unrestored_in, report.unrestored_in), (redone, report.redone)):
            for stretch in more:
                _extend(known, stretch)
        for person in report.people:
            counts.setdefault(person.person, Counter()).update(person.frames)
            theirs = spans.setdefault(person.person, [])
            for span in person.spans:
                _extend_span(theirs, span)
    return RenderReport(
        frames=total,
        without_face=without,
        people=tuple(
            PersonReport(person=person, frames=dict(counts[person]), spans=tuple(spans[person]))
            for person in sorted(counts, key=lambda name: (name is None, name or ""))
        ),
        unrestored=unrestored,
        not_looked=not_looked,
        empty=tuple(empty),
        unrestored_in=tuple(unrestored_in),
        redone=tuple(redone),
    )


def time_code(seconds: float) -> str:
    """HH:MM:SS.mmm after the plate's first frame."""
    thousandths = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"


def _extend(stretches: list[Stretch], more: Stretch) -> None:
    if stretches and more.first == stretches[-1].last + 1:
        more = more.model_copy(update={"first": stretches[-1].first, "first_pts": stretches.pop().first_pts})
    stretches.append(more)


def _extend_span(spans: list[Span], more: Span) -> None:
    """Add a span, or let one of the last few of the same outcome go on in it."""
    for position in range(len(spans) - 1, max(-1, len(spans) - 4), -1):
        span = spans[position]
        if span.outcome is more.outcome and span.first <= more.first and more.first - 1 <= span.last <= more.last:
            spans[position] = span.model_copy(update={"last": more.last, "last_pts": more.last_pts})
            return
    spans.append(more)
