"""A job's account: what became of each person's face, frame for frame, in plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pydantic import BaseModel

from farm.errors import FarmError
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import MappingRequest, resolve
from farm.faces.member import Cast
from farm.faces.report import Outcome, PersonReport, RenderReport, Span, Stretch, joined, time_code
from farm.media.facts import PlateFacts
from farm.media.timecode import start_timecode, timecode_at

_DONE = (Outcome.SWAPPED, Outcome.RESTORED)


class StretchOut(BaseModel):
    """Frames [first, last] in a row. `start`, `end`: time codes of both, the plate's own where it has one."""

    first: int
    last: int
    start: str
    end: str


class SpanOut(StretchOut):
    outcome: str


class PersonOut(BaseModel):
    """One cast member (None: faces of nobody in the cast): frames found, changed and kept, by outcome, and where."""

    person: str | None
    identity: str | None = None
    found: int = 0
    changed: int = 0
    kept: int = 0
    outcomes: dict[str, int] = {}
    spans: list[SpanOut] = []


class IdentityOut(BaseModel):
    """Which pictures of an identity count, and which were left out because they show somebody else."""

    label: str
    used: list[str]
    left_out: list[str]


class ReportOut(BaseModel):
    """`frames`: rendered so far. `without_face`, `empty`: frames in which no face was seen, how many and where.

    `not_looked`: frames in which none was looked for. `unrestored`, `unrestored_in`: frames that could not be restored
    as a whole. `redone`: frames with a face made again in full precision, since the first answer was no picture.
    """

    frames: int
    without_face: int
    not_looked: int
    unrestored: int
    people: list[PersonOut]
    empty: list[StretchOut]
    identities: list[IdentityOut]
    unrestored_in: list[StretchOut] = []
    redone: list[StretchOut] = []


class Clock:
    """Seconds and time codes of a plate's frames."""

    def __init__(self, facts: PlateFacts) -> None:
        video = facts.video
        self._start, self._base = video.start_pts or 0, video.time_base
        self._rate = video.average_rate
        self._timecode = start_timecode(facts.metadata, *(stream.metadata for stream in facts.streams))

    def seconds(self, pts: int) -> float:
        return float((pts - self._start) * self._base)

    def code(self, index: int, pts: int) -> str:
        smpte = timecode_at(self._timecode, index, Fraction(self._rate)) if self._timecode and self._rate else None
        return smpte or time_code(self.seconds(pts))

    def stretch(self, found: Stretch) -> dict[str, Any]:
        return {
            "first": found.first,
            "last": found.last,
            "start": self.code(found.first, found.first_pts),
            "end": self.code(found.last, found.last_pts),
        }


def account(
    reports: Sequence[dict[str, Any]],
    clock: Clock,
    cast: Cast,
    mapping: dict[str, Any] | None,
    identities: Mapping[str, PreparedIdentity],
) -> ReportOut:
    """The account of a job from its chunks' reports (RenderReport as JSON), in order."""
    whole = joined(RenderReport.model_validate(report) for report in reports)
    wanted, everyone = _mapped(cast, mapping, identities)
    seen = {person.person: person for person in whole.people}
    names = [member.id for member in cast.members] + [name for name in seen if name not in wanted]
    return ReportOut(
        frames=whole.frames,
        without_face=whole.without_face,
        not_looked=whole.not_looked,
        unrestored=whole.unrestored,
        people=[_person(name, wanted.get(name, everyone), seen.get(name), clock) for name in names],
        empty=[StretchOut(**clock.stretch(stretch)) for stretch in whole.empty],
        identities=[
            IdentityOut(label=label, used=list(identity.used), left_out=list(identity.outliers))
            for label, identity in identities.items()
        ],
        unrestored_in=[StretchOut(**clock.stretch(stretch)) for stretch in whole.unrestored_in],
        redone=[StretchOut(**clock.stretch(stretch)) for stretch in whole.redone],
    )


def _person(name: str | None, identity: str | None, found: PersonReport | None, clock: Clock) -> PersonOut:
    frames: Mapping[Outcome, int] = found.frames if found else {}
    spans: Sequence[Span] = found.spans if found else ()
    changed = sum(frames.get(outcome, 0) for outcome in _DONE)
    return PersonOut(
        person=name,
        identity=identity,
        found=sum(frames.values()),
        changed=changed,
        kept=sum(frames.values()) - changed,
        outcomes={outcome.value: count for outcome, count in frames.items()},
        spans=[SpanOut(outcome=span.outcome.value, **clock.stretch(span)) for span in spans],
    )


def _mapped(
    cast: Cast, mapping: dict[str, Any] | None, identities: Mapping[str, PreparedIdentity]
) -> tuple[dict[str | None, str | None], str | None]:
    """The identity of each cast member, and that of everybody else."""
    nobody: dict[str | None, str | None] = {member.id: None for member in cast.members}
    if mapping is None:
        return nobody, None
    try:
        decided = resolve(MappingRequest.model_validate(mapping), cast, identities)
    except (FarmError, ValueError):
        return nobody, None
    return {person.id: person.identity for person in decided.people}, decided.everyone
