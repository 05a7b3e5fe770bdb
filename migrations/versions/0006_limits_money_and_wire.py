"""Retries of a whole job, budgets in money, jobs that are to be deleted, and lanes that ask for a newer wire.

Two functions of 0003 are amended in place, so that what they now ask holds for workers of the version before too: a
slot gets nothing from a lane whose wire it does not understand, and the end of a render is counted in money.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from farm.db.online import add_columns

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_UNIQUE = "uq_lane_submitter_id_kind_tags_vram_mb_models_codecs"
_UNIQUE_NOW = f"{_UNIQUE}_wire"
_NEEDS = ["submitter_id", "kind", "tags", "vram_mb", "models", "codecs"]

_WIRE = (
    "farm_take_1",
    "AND p.budget_state <> 'stopped'",
    "AND p.budget_state <> 'stopped' AND l.wire <= coalesce((p_slot->>'wire')::int, 1)",
)
_MONEY = (
    "farm_finish_render_1",
    "gpu_seconds = p.gpu_seconds + n.seconds",
    """gpu_seconds = p.gpu_seconds + n.seconds, money = p.money
            + n.seconds / 3600 * coalesce((SELECT w.rate FROM worker w WHERE w.id = v_worker), 0)""",
)


def upgrade() -> None:
    add_columns(
        ("job", sa.Column("max_retries", sa.Integer(), nullable=True)),
        ("job", sa.Column("delete_at", sa.DateTime(timezone=True), nullable=True)),
        ("project", sa.Column("money", sa.Float(), server_default=sa.text("0"), nullable=False)),
        ("project", sa.Column("budget_money", sa.Float(), nullable=True)),
        ("lane", sa.Column("wire", sa.Integer(), server_default=sa.text("1"), nullable=False)),
    )
    for function, before, after in (_WIRE, _MONEY):
        _amend(function, before, after)
    with op.get_context().autocommit_block():
        # one that was left half made by a migration that was broken off is of no use
        op.execute(f"ALTER TABLE lane DROP CONSTRAINT IF EXISTS {_UNIQUE_NOW}")
        op.drop_index(_UNIQUE_NOW, "lane", postgresql_concurrently=True, if_exists=True)
        op.create_index(_UNIQUE_NOW, "lane", [*_NEEDS, "wire"], unique=True, postgresql_concurrently=True)
        op.drop_index("ix_job_delete", "job", postgresql_concurrently=True, if_exists=True)
        op.create_index(
            "ix_job_delete",
            "job",
            ["delete_at"],
            postgresql_where=sa.text("delete_at IS NOT NULL"),
            postgresql_concurrently=True,
        )
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(f"ALTER TABLE lane ADD CONSTRAINT {_UNIQUE_NOW} UNIQUE USING INDEX {_UNIQUE_NOW}")
    op.execute(f"ALTER TABLE lane DROP CONSTRAINT IF EXISTS {_UNIQUE}")


def downgrade() -> None:
    for function, after, before in (_WIRE, _MONEY):
        _amend(function, before, after)
    op.execute(  # tasks of a lane that differs by its wire alone go to its twin
        """
        WITH twin AS (
            SELECT DISTINCT ON (l.id) l.id, first_value(o.id) OVER (PARTITION BY l.id ORDER BY o.wire, o.id) AS keeps
            FROM lane l JOIN lane o USING (submitter_id, kind, tags, vram_mb, models, codecs))
        UPDATE task SET lane_id = twin.keeps FROM twin WHERE task.lane_id = twin.id AND twin.keeps <> twin.id"""
    )
    op.execute("UPDATE lane SET open = true")
    op.execute(
        """
        DELETE FROM lane l USING lane o
        WHERE (l.submitter_id, l.kind, l.tags, l.vram_mb, l.models, l.codecs)
            = (o.submitter_id, o.kind, o.tags, o.vram_mb, o.models, o.codecs) AND (o.wire, o.id) < (l.wire, l.id)"""
    )
    op.create_unique_constraint(_UNIQUE, "lane", _NEEDS)
    op.drop_constraint(_UNIQUE_NOW, "lane")
    op.drop_column("lane", "wire")
    op.drop_column("project", "budget_money")
    op.drop_column("project", "money")
    op.drop_index("ix_job_delete", "job")
    op.drop_column("job", "delete_at")
    op.drop_column("job", "max_retries")


def _amend(function: str, before: str, after: str) -> None:
    """Put `after` in the place of the one `before` in a function's text; nothing where that was done already."""
    named = sa.text("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = :name")
    text = op.get_bind().scalars(named, {"name": function}).one()
    if after in text and after.startswith(before):
        return
    if text.count(before) != 1:
        raise RuntimeError(f"{function} is not as revision 0003 made it: it lacks {before!r}.")
    op.execute(text.replace(before, after))
