"""Whether a job will be done in time: a pure judgement of its deadline, the time and its progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from farm.jobs.progress import JobProgress


@dataclass(frozen=True, slots=True)
class Outlook:
    """`by`: how much later than the deadline the job is expected, negative for earlier. `words`: for a person."""

    late: bool
    by: timedelta
    words: str


def foresee(deadline: datetime, now: datetime, progress: JobProgress) -> Outlook:
    """Late: the deadline has passed, or even one standard error less than the ETA is after it.

    A job whose ETA is not known yet (nothing runs, or nothing was measured) is late once the deadline has passed.
    """
    if now > deadline:
        return Outlook(True, now - deadline, f"Its deadline passed {_words(now - deadline)} ago.")
    if progress.eta_seconds is None:
        return Outlook(False, now - deadline, f"Its deadline is in {_words(deadline - now)}.")
    done = now + timedelta(seconds=progress.eta_seconds)
    surely = done - timedelta(seconds=progress.eta_error or 0.0)
    if surely > deadline:
        words = (
            f"At its present rate ({progress.running} at work) it is rendered {_words(done - deadline)} after "
            "its deadline: raise its priority or its share, or add workers."
        )
        return Outlook(True, done - deadline, words)
    return Outlook(False, done - deadline, f"It is expected {_words(deadline - done)} before its deadline.")


def _words(time: timedelta) -> str:
    minutes = round(abs(time.total_seconds()) / 60)
    if minutes < 1:
        return f"{abs(time.total_seconds()):.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
