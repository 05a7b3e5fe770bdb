"""What each class of error means for its task."""

from __future__ import annotations

import pytest

from farm.errors import ErrorClass
from farm.jobs.policy import DEFAULT
from farm.jobs.verdict import Next, Tries, judge, judge_lost


@pytest.mark.parametrize("error", [ErrorClass.INPUT, ErrorClass.POLICY, ErrorClass.RECIPE])
def test_what_no_try_can_mend_fails_the_job(error: ErrorClass) -> None:
    assert judge(error, Tries(), 3, DEFAULT).next is Next.FAIL_JOB


def test_infrastructure_waits_twice_as_long_each_time_up_to_a_limit() -> None:
    tries, delays = Tries(), []
    while (verdict := judge(ErrorClass.INFRASTRUCTURE, tries, 3, DEFAULT)).next is Next.LATER:
        delays.append(verdict.delay)
        tries = verdict.tries
    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert tries.charged == 0


@pytest.mark.parametrize(
    ("error", "limit"),
    [(ErrorClass.OUT_OF_MEMORY, DEFAULT.shrink_limit), (ErrorClass.INTERRUPTED, DEFAULT.hand_back_limit)],
)
def test_free_tries_are_many_but_not_endless(error: ErrorClass, limit: int) -> None:
    tries, again = Tries(), 1
    while (verdict := judge(error, tries, 1, DEFAULT)).next is Next.AGAIN:
        tries, again = verdict.tries, again + 1
    assert (verdict.next, again, tries.charged) == (Next.FAIL_TASK, limit, 0)


def test_the_unknown_is_charged() -> None:
    first = judge(ErrorClass.UNKNOWN, Tries(workers=1), 2, DEFAULT)
    assert (first.next, first.tries.charged) == (Next.AGAIN, 1)
    assert judge(ErrorClass.UNKNOWN, first.tries, 2, DEFAULT).next is Next.FAIL_TASK
    assert judge(ErrorClass.UNKNOWN, Tries(workers=3), 20, DEFAULT).why == "3 different workers failed it."


def test_three_dead_workers_make_poison() -> None:
    assert judge_lost(Tries(lost=1), DEFAULT).next is Next.AGAIN
    assert judge_lost(Tries(lost=2), DEFAULT).next is Next.FAIL_TASK
