"""Giving a task to a slot.

The order is: priority, then fair share of the project and of the submitter (live attempts with this one, over
weight), then the earliest deadline, then age, then within a job whatever unblocks the most. A lane (all tasks of one
submitter with the same needs) is judged by its head, so the work that a slot cannot do costs it nothing; the task
itself is taken with FOR UPDATE SKIP LOCKED, so two claims never wait for each other and never get the same one. Caps
are exact: a capped count is looked at and raised under a lock. The order of shares may lag by the claims of the same
instant.

All of it is one function in the database (`farm_claim_2`, made by migration 0007): one round trip, planned once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from farm.db.ids import new_id
from farm.jobs.moves import mark_started
from farm.jobs.payload import chunks_of, load_claim
from farm.jobs.policy import DEFAULT, Policy, policy_json
from farm.jobs.states import TaskKind
from farm.jobs.wire import Claim, Slot

Token = Callable[[], str]

_CLAIM = "SELECT taken, work FROM farm_claim_2(%s::jsonb, %s::jsonb, %s, %s)"


def fresh_token() -> str:
    """A lease token that nobody can guess."""
    return secrets.token_urlsafe(24)


def claim(session: Session, slot: Slot, policy: Policy = DEFAULT, *, token: Token = fresh_token) -> Claim | None:
    """The most urgent task that the slot may do, with a lease; None when there is none. One transaction.

    Commit before any work is begun: the lease counts from the claim. A claim whose answer was lost costs nothing but
    the lease's time. The commit is not waited for on the disk.
    """
    attempt_id, lease_token = new_id(), token()
    taken, work = (
        session.connection()
        .exec_driver_sql(_CLAIM, (slot_json(slot), policy_json(policy), attempt_id, lease_token))
        .one()
    )
    return None if taken is None else hand_over(session, slot, policy, attempt_id, lease_token, taken, work)


def hand_over(
    session: Session,
    slot: Slot,
    policy: Policy,
    attempt_id: str,
    token: str,
    taken: dict[str, Any],
    work: dict[str, Any],
) -> Claim:
    """The claim for what the database has just given to the slot; the first task of a job starts it."""
    if taken["kind"] == TaskKind.PLAN:
        mark_started(session, taken["job"])
    return load_claim(partial(chunks_of, session), slot, policy, attempt_id, token, taken, work)


def slot_json(slot: Slot) -> str:
    return slot.model_dump_json()
