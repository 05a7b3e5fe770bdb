"""What an error means for its task: a pure decision, kept apart from the rows that it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from farm.errors import ErrorClass
from farm.jobs.policy import Policy
from farm.words import counted

DISTINCT_WORKERS = 3

_ENDS_THE_JOB = frozenset({ErrorClass.INPUT, ErrorClass.POLICY, ErrorClass.RECIPE})


class Next(StrEnum):
    """What becomes of the task."""

    AGAIN = "again"
    LATER = "later"
    FAIL_TASK = "fail_task"
    FAIL_JOB = "fail_job"


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a task was tried, by how it ended; `workers` is how many distinct ones failed it, this one included."""

    charged: int = 0
    lost: int = 0
    shrunk: int = 0
    handed_back: int = 0
    delayed: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tries` are the counts from now on, `why` a sentence, `delay` seconds until the next try (LATER only)."""

    next: Next
    tries: Tries
    why: str
    delay: float = 0.0


def judge(error: ErrorClass, tries: Tries, max_attempts: int, policy: Policy) -> Verdict:
    """What follows from an error that an attempt reported.

    Input, policy and recipe errors fail the job. Memory, hand-backs and infrastructure cost no try; each has a
    limit that only a fault reaches. Anything else is charged: `max_attempts` or three distinct workers fail the task.
    """
    if error in _ENDS_THE_JOB:
        return Verdict(Next.FAIL_JOB, tries, "No other try can help.")
    if error is ErrorClass.OUT_OF_MEMORY:
        now = replace(tries, shrunk=tries.shrunk + 1)
        return _free(now, now.shrunk, policy.shrink_limit, "It ran out of memory {n}, with ever smaller batches.")
    if error in (ErrorClass.INTERRUPTED, ErrorClass.STALE_LEASE):
        now = replace(tries, handed_back=tries.handed_back + 1)
        return _free(now, now.handed_back, policy.hand_back_limit, "Workers handed it back {n}.")
    if error is ErrorClass.INFRASTRUCTURE:
        now = replace(tries, delayed=tries.delayed + 1)
        if now.delayed >= policy.delay_limit:
            return Verdict(Next.FAIL_TASK, now, f"Infrastructure failed it {counted(now.delayed, 'time')}.")
        delay = min(policy.backoff_seconds * 2**tries.delayed, policy.backoff_most)
        return Verdict(Next.LATER, now, f"It is tried again in {delay:.0f} s.", delay)
    now = replace(tries, charged=tries.charged + 1)
    if now.workers >= DISTINCT_WORKERS:
        return Verdict(Next.FAIL_TASK, now, f"{now.workers} different workers failed it.")
    if now.charged >= max_attempts:
        return Verdict(Next.FAIL_TASK, now, f"It failed {counted(now.charged, 'time')}.")
    return Verdict(Next.AGAIN, now, f"Try {now.charged} of {max_attempts} failed.")


def judge_lost(tries: Tries, policy: Policy) -> Verdict:
    """What follows from a lease that ran out. A task that its workers do not survive is poison."""
    now = replace(tries, lost=tries.lost + 1)
    return _free(now, now.lost, policy.lost_limit, "Workers that had it died or went silent {n}.")


def _free(now: Tries, count: int, limit: int, why: str) -> Verdict:
    text = why.format(n=counted(count, "time"))
    return Verdict(Next.FAIL_TASK if count >= limit else Next.AGAIN, now, text)
