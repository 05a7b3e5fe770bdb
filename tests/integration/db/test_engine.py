"""`transact` survives what may be survived, and says so when it gives up."""

from __future__ import annotations

from typing import LiteralString

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, ask, make_engine, make_sessions, transact
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


def test_a_transaction_that_is_frozen_lets_go_of_its_locks_and_is_run_again(database: str) -> None:
    """Found by fault injection: a slot that was stopped inside its heartbeat kept its lease from being taken away."""
    engine = make_engine(database, idle_seconds=0.2)
    sessions = make_sessions(engine)
    with sessions.begin() as session:
        session.execute(text("INSERT INTO project (id, name) VALUES ('x', 'before')"))
    rename = text("UPDATE project SET name = :name WHERE id = 'x'")
    tries: list[int] = []

    def frozen(session: Session) -> str:
        tries.append(1)
        session.execute(rename, {"name": "frozen"})
        if len(tries) == 1:
            transact(sessions, lambda other: other.execute(rename, {"name": "repaired"}))
        return session.scalars(text("SELECT name FROM project WHERE id = 'x'")).one()

    assert transact(sessions, frozen, sleep=lambda _: None) == "frozen"
    assert len(tries) == 2
    engine.dispose()


def test_locks_are_waited_for_longer_than_a_frozen_transaction_can_hold_them(sessions: Sessions) -> None:
    wanted = text("SELECT setting::int FROM pg_settings WHERE name = :name")
    with sessions() as session:
        idle = session.scalar(wanted, {"name": "idle_in_transaction_session_timeout"})
        lock = session.scalar(wanted, {"name": "lock_timeout"})
    assert 0 < idle < lock


def test_one_statement_is_a_transaction_of_its_own_and_leaves_the_line_as_it_was(sessions: Sessions) -> None:
    asked = "INSERT INTO project (id, name) VALUES (%s, %s) RETURNING name"
    assert ask(sessions, asked, ("a", "one")) == ("one",)
    with sessions() as session:
        assert session.scalar(text("SELECT name FROM project WHERE id = 'a'")) == "one"
        session.execute(text("UPDATE project SET name = 'two'"))
        session.rollback()
        assert session.scalar(text("SELECT name FROM project WHERE id = 'a'")) == "one", "a rollback still counts"
    assert ask(sessions, "SELECT name FROM project WHERE id = %s", ("b",)) is None


def test_one_statement_survives_what_a_transaction_does(sessions: Sessions) -> None:
    own = ask(sessions, "SELECT pg_backend_pid()", ())
    assert own is not None
    onlooker = make_engine(sessions.kw["bind"].url.render_as_string(hide_password=False))
    with onlooker.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": own[0]})
    onlooker.dispose()
    slept: list[float] = []
    assert ask(sessions, "SELECT 7", (), sleep=slept.append) == (7,)
    assert slept == [0.05]


@pytest.mark.parametrize(
    ("statement", "error", "words", "pauses"),
    [
        ("SELECT * FROM nowhere", FarmError, "42P01", 0),
        ("DO $$ BEGIN RAISE query_canceled; END $$", InfrastructureError, "57014", 0),
        ("DO $$ BEGIN RAISE serialization_failure; END $$", InfrastructureError, "40001", 2),
    ],
)
def test_what_is_wrong_with_one_statement_is_said_as_of_a_transaction(
    sessions: Sessions, statement: LiteralString, error: type[FarmError], words: str, pauses: int
) -> None:
    slept: list[float] = []
    with pytest.raises(error, match=words) as refused:
        ask(sessions, statement, (), tries=3, sleep=slept.append)
    assert (type(refused.value), len(slept)) == (error, pauses)
