"""What a check of a finished deliverable found, in words and as data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from farm.media.facts import Rational
from farm.merger.carry import Way
from farm.words import counted

_MOST_FINDINGS = 20


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Report):
    """One thing that is not as it should be. `code` is stable; `text` is a sentence; `frame` and `pts` where known."""

    code: str
    text: str
    frame: int | None = None
    pts: int | None = None


class TrackReport(_Report):
    """A stream of the plate and what became of it.

    `index` is the plate's; `packets` counts the deliverable's; `sha256` is of their joined payload; `same` says that
    the plate's payload has the same one.
    """

    index: int
    kind: str
    way: Way
    packets: int
    sha256: str
    same: bool


class VerifyReport(_Report):
    """What reading the deliverable back found. `ok` is the verdict; `findings` say what is wrong, at most 20 of them.

    `worst_pts_error` is in seconds, against the plate's time rounded to the deliverable's ticks of `time_base`
    seconds. `seams` counts those between chunks, `seam_frames` the frames beside them that were compared with the
    plate's; `lossless_chunks` the chunks whose samples were compared bit by bit.
    `notes` are small things that a person may want to know, none of which is a fault.
    """

    ok: bool
    frames_in: int
    frames_out: int
    worst_pts_error: Rational
    time_base: Rational
    seams: int
    seam_frames: int = 0
    lossless_chunks: int
    tracks: tuple[TrackReport, ...]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def words(self) -> str:
        """The report as one paragraph."""
        if not self.ok:
            return " ".join(finding.text for finding in self.findings)
        kept = sum(track.same for track in self.tracks)
        bits = f", bit for bit in {counted(self.lossless_chunks, 'chunk')}," if self.lossless_chunks else ""
        return (
            f"{self.frames_out} of {counted(self.frames_in, 'frame')} were decoded{bits} with exact time stamps in "
            f"ticks of {self.time_base} s; {kept} of {len(self.tracks)} other tracks have the plate's own packets."
        )


class Findings:
    """Collects findings; keeps the first 20 and counts the rest, so that a broken film does not fill memory."""

    def __init__(self) -> None:
        self.items: list[Finding] = []
        self.notes: list[str] = []
        self.count = 0

    def add(self, code: str, text: str, frame: int | None = None, pts: int | None = None) -> None:
        self.count += 1
        if len(self.items) < _MOST_FINDINGS:
            self.items.append(Finding(code=code, text=text, frame=frame, pts=pts))

    def take(self, other: Findings) -> None:
        """Add what another one collected."""
        self.items += other.items[: _MOST_FINDINGS - len(self.items)]
        self.notes += other.notes[: _MOST_FINDINGS - len(self.notes)]
        self.count += other.count

    def note(self, text: str) -> None:
        if len(self.notes) < _MOST_FINDINGS:
            self.notes.append(text)
