"""Alembic's entry. `farm.db.migrate` hands over the connection; there is no ini file and no URL here."""

from __future__ import annotations

from alembic import context

from farm.db.tables import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
