"""A plan that does not fit the plate is made again by decoding, once."""

from __future__ import annotations

import pytest

from farm.db.engine import Sessions, transact
from farm.errors import StaleLeaseError
from farm.jobs import TaskKind, TaskState
from farm.jobs.redecode import BY_DECODING, replan
from tests.integration.jobs.hands import Hands


def test_the_job_is_planned_again_by_decoding(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(2)
    done = hands.must_claim(TaskKind.RENDER)
    hands.finish(done)
    broken = hands.must_claim(TaskKind.RENDER)
    assert transact(sessions, lambda session: replan(session, broken.lease, "Frame 7 is missing."))
    assert "Frame 7 is missing." in hands.reason(job)
    assert set(hands.tasks(job, TaskKind.RENDER)) == {TaskState.WAITING}, "no chunk of the wrong plan can be claimed"
    plan = hands.must_claim()
    assert plan.kind is TaskKind.PLAN
    assert plan.job.options[BY_DECODING] is True
    with pytest.raises(StaleLeaseError):
        hands.finish(broken)


def test_it_is_not_planned_a_third_time(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    hands.plan(1)
    first = hands.must_claim(TaskKind.RENDER)
    assert transact(sessions, lambda session: replan(session, first.lease, "once"))
    hands.plan(1)
    second = hands.must_claim(TaskKind.RENDER)
    assert not transact(sessions, lambda session: replan(session, second.lease, "twice"))
