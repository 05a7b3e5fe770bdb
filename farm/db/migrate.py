"""Bring a database to the newest schema, by one process at a time."""

from __future__ import annotations

import time
from collections.abc import Callable

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, make_url, text

from farm.resources import resource

_LOCK = 0x6661726D  # "farm": the advisory lock that one migrator holds
_POLL_SECONDS = 0.1


def config(connection: Connection) -> Config:
    """Alembic's configuration, made in memory: no ini file and no URL in any file."""
    made = Config()
    made.set_main_option("script_location", str(resource("migrations")).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


def upgrade(url: str, revision: str = "head") -> None:
    """Migrate to `revision`. Two that start at once run one after the other, and the second finds nothing to do."""
    _run(url, lambda cfg: command.upgrade(cfg, revision))


def downgrade(url: str, revision: str) -> None:
    """Migrate back to `revision` ("base": no tables)."""
    _run(url, lambda cfg: command.downgrade(cfg, revision))


def _be_the_only_one(connection: Connection) -> None:
    """Wait for the migrators' lock, outside of any transaction.

    One that waited inside a statement would hold a snapshot, for whose end an index that is built concurrently waits.
    """
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}):
        connection.rollback()
        time.sleep(_POLL_SECONDS)
    connection.commit()


def _run(url: str, action: Callable[[Config], None]) -> None:
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"), connect_args={"application_name": "farm-migrate"}
    )
    try:
        with engine.connect() as connection:
            _be_the_only_one(connection)
            try:
                action(config(connection))
            finally:
                connection.rollback()
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
                connection.commit()
    finally:
        engine.dispose()
