"""Engine, sessions, and the border at which database errors become the farm's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, LiteralString, TypeVar

import psycopg
from sqlalchemy import CursorResult, Engine, Executable, create_engine, func, make_url, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from farm.errors import FarmError, InfrastructureError

T = TypeVar("T")
Sessions = sessionmaker[Session]

# classes of SQLSTATE for bad data, broken constraints, unknown names or features: trying again will not help
_OUR_FAULT = frozenset({"22", "23", "42", "0A"})

# serialization failure, deadlock, lock timeout: the transaction did nothing and may be run again
_RETRY_STATES = frozenset({"40001", "40P01", "55P03"})


def make_engine(
    url: str,
    *,
    application: str = "farm",
    pool_size: int = 5,
    statement_seconds: float = 30.0,
    lock_seconds: float = 15.0,
    idle_seconds: float = 10.0,
) -> Engine:
    """An engine for `postgresql://` (psycopg 3) whose connections cannot hang the farm.

    A connection is not checked before use: after a restart of the server `transact` tries once more, which costs
    less than a ping for every transaction. `statement_seconds` and `lock_seconds` bound every statement and every
    wait for a lock. A transaction in which nothing happens for `idle_seconds` is ended by the server: a process that
    was frozen inside one holds its locks, and whoever repairs what it left must get them before its wait is over.
    """
    parsed = make_url(url).set(drivername="postgresql+psycopg")
    options = {
        "statement_timeout": f"{statement_seconds * 1000:.0f}",
        "lock_timeout": f"{lock_seconds * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{idle_seconds * 1000:.0f}",
        "timezone": "UTC",
    }
    return create_engine(
        parsed,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=10,
        connect_args={
            "application_name": application,
            "connect_timeout": 5,
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        },
    )


def make_sessions(engine: Engine) -> Sessions:
    """The session factory. Objects stay readable after the commit; `READ COMMITTED` is what the claims count on."""
    return sessionmaker(engine, expire_on_commit=False)


def transact(
    sessions: Sessions,
    work: Callable[[Session], T],
    *,
    tries: int = 5,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Run `work` in one transaction and commit it; try again when the database says that trying again is right.

    Deadlocks, serialization failures and lost connections are retried with growing pauses (0.05 s, doubled). After a
    lost connection a commit may have happened unseen: every use case of `farm.jobs` may be called twice, so that does
    no harm. Anything else that the database refuses is raised as InfrastructureError, or as a plain FarmError where the
    statement or its data are at fault.
    """

    def once() -> T:
        with sessions.begin() as session:
            return work(session)

    return _persisting(once, tries, sleep)


def ask(
    sessions: Sessions,
    statement: LiteralString,
    parameters: Sequence[Any],
    *,
    tries: int = 5,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Any, ...] | None:
    """Run one statement (`%s` for each parameter) as a transaction of its own; its first row.

    One round trip where `transact` needs three, and a quarter of its processor time. Errors and new tries are those of
    `transact`; with `tries` 1 the caller hears that an answer was lost, and that its commit may have happened unseen.
    """
    return _persisting(lambda: ask_once(sessions.kw["bind"], statement, parameters), tries, sleep)


def _persisting(once: Callable[[], T], tries: int, sleep: Callable[[float], None]) -> T:
    """What `once` gives, of at most `tries` times; see `transact`."""
    for attempt in range(1, tries + 1):
        try:
            return once()
        except (DBAPIError, psycopg.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            lost = isinstance(error, DBAPIError) and error.connection_invalidated
            if attempt == tries or not _may_retry(cause, lost=lost):
                raise _refusal(cause) from error
            sleep(0.05 * 2 ** (attempt - 1))
    raise AssertionError("unreachable")


def ask_once(engine: Engine, statement: LiteralString, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """What `ask` tries: the driver's own call, on a connection of the pool. psycopg.Error."""
    pooled = engine.raw_connection()
    try:
        line = pooled.driver_connection
        assert isinstance(line, psycopg.Connection)  # noqa: S101  (narrows the type: the engine is psycopg's)
        line.autocommit = True
        row: tuple[Any, ...] | None = line.execute(statement, parameters).fetchone()
        line.autocommit = False
    except BaseException:
        pooled.invalidate()  # it is dead, or left in a mode that its next user does not expect
        raise
    finally:
        pooled.close()
    return row


def database_now(sessions: Sessions) -> datetime:
    """The database's clock: the only one by which the farm's programs may agree on a time."""

    def read(session: Session) -> datetime:
        now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return now

    return transact(sessions, read)


def rows_changed(session: Session, statement: Executable, parameters: dict[str, Any] | None = None) -> int:
    """Run a changing statement; how many rows it changed."""
    result = session.execute(statement, parameters)
    assert isinstance(result, CursorResult)  # noqa: S101  (narrows the type: a changing statement has a cursor)
    return result.rowcount


def _refusal(error: BaseException | None) -> FarmError:
    state = _sqlstate(error)
    what = f"The database refused: {type(error).__name__} {state}".strip()
    if state[:2] in _OUR_FAULT:
        return FarmError(what, where="PostgreSQL", do="See that program and schema are of one version (farm migrate).")
    return InfrastructureError(
        what,
        where="PostgreSQL",
        do="See that it runs and accepts connections (farm doctor); the farm tries again by itself.",
    )


def _sqlstate(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""


def _may_retry(error: BaseException | None, *, lost: bool) -> bool:
    state = _sqlstate(error)
    # class 08 and 57P: connection lost or server going down; no state at all: the client lost the connection itself
    return lost or state in _RETRY_STATES or state[:3] in {"57P"} or state[:2] in {"08", ""}
