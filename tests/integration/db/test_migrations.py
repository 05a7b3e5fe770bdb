"""The migrated schema is the tables' schema, and migrating goes both ways, alone and by two at once."""

from __future__ import annotations

import threading

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, text

from farm.db.engine import make_engine, make_sessions
from farm.db.migrate import downgrade, upgrade
from farm.db.tables import Base, Project

_CATALOG = {
    "columns": """
        SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_identity
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        AND conrelid::regclass::text <> 'alembic_version'""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes "
    "WHERE schemaname = 'public' AND tablename <> 'alembic_version'",
    "options": "SELECT relname, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace "
    "AND reloptions IS NOT NULL",
}


def catalog(engine: Engine) -> dict[str, set[tuple[object, ...]]]:
    with engine.connect() as connection:
        return {name: {tuple(row) for row in connection.execute(text(sql))} for name, sql in _CATALOG.items()}


def test_migrated_schema_is_the_tables_schema(database: str, empty_database: str) -> None:
    made, migrated = make_engine(empty_database), make_engine(database)
    Base.metadata.create_all(made)
    want, have = catalog(made), catalog(migrated)
    for part in _CATALOG:
        assert have[part] == want[part], part
    assert len(want["constraints"]) > 40  # the queries do see something
    with migrated.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    made.dispose()
    migrated.dispose()


def test_down_and_up_again_on_data(schema_database: str) -> None:
    engine = make_engine(schema_database)
    sessions = make_sessions(engine)
    with sessions.begin() as session:
        session.add(Project(name="film"))
    downgrade(schema_database, "base")
    assert catalog(engine)["columns"] == set()
    upgrade(schema_database)
    with sessions.begin() as session:
        session.add(Project(name="film"))
    engine.dispose()


def test_two_migrators_at_once(empty_database: str) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            upgrade(empty_database)
        except BaseException as error:  # handed to the main thread, which fails on it
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    engine = make_engine(empty_database)
    assert catalog(engine)["columns"]
    engine.dispose()
