"""`transact` survives what may be survived, and says so when it gives up."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, transact
from farm.errors import ErrorClass, FarmError, InfrastructureError, InputError, classify


def test_a_lost_connection_is_one_retry(sessions: Sessions) -> None:
    calls: list[int] = []

    def work(session: Session) -> int:
        calls.append(1)
        if len(calls) == 1:
            own = session.scalar(text("SELECT pg_backend_pid()"))
            with sessions() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": own})
        return int(session.scalar(text("SELECT 7")) or 0)

    slept: list[float] = []
    assert transact(sessions, work, sleep=slept.append) == 7
    assert len(calls) == 2
    assert slept == [0.05]


def test_a_server_that_is_in_the_way_is_an_infrastructure_error(sessions: Sessions) -> None:
    cancel = "DO $$ BEGIN RAISE query_canceled; END $$"
    with pytest.raises(InfrastructureError, match="57014"):
        transact(sessions, lambda session: session.execute(text(cancel)), sleep=lambda _: None)


def test_a_wrong_statement_is_no_infrastructure_error_that_would_be_tried_for_ever(sessions: Sessions) -> None:
    with pytest.raises(FarmError, match="42P01") as refused:
        transact(sessions, lambda session: session.execute(text("SELECT * FROM nowhere")), sleep=lambda _: None)
    assert classify(refused.value) is ErrorClass.UNKNOWN


def test_serialization_failures_are_retried_until_the_limit(sessions: Sessions) -> None:
    calls: list[int] = []

    def work(session: Session) -> None:
        calls.append(1)
        session.execute(text("DO $$ BEGIN RAISE serialization_failure; END $$"))

    with pytest.raises(InfrastructureError, match="40001"):
        transact(sessions, work, tries=3, sleep=lambda _: None)
    assert len(calls) == 3


def test_the_farms_own_errors_pass_and_roll_back(sessions: Sessions) -> None:
    def work(session: Session) -> None:
        session.execute(text("INSERT INTO project (id, name) VALUES ('x', 'x')"))
        raise InputError("no")

    with pytest.raises(InputError):
        transact(sessions, work)
    with sessions() as session:
        assert session.scalar(text("SELECT count(*) FROM project")) == 0
