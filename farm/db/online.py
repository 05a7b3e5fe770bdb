"""Changes of tables that a busy farm bears, for migrations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op


def add_columns(*columns: tuple[str, sa.Column[Any]]) -> None:
    """Add columns that need no table to be written anew, (table, column) each; those that are there stay.

    Each in a transaction of its own: one that held a table and waited for the next would stand against a worker that
    came to them in the other order, and the database would end one of the two. A lock that is not had in 5 s would
    hold up every claim behind it: then OperationalError, and the migration is to be run again.
    """
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = '5s'")
        for table, column in columns:
            op.add_column(table, column, if_not_exists=True)
        op.execute("SET lock_timeout = 0")  # building an index may wait longer: it holds nothing up
