"""What operators asked for: causes of failures, fingerprints of results, keys of workers, schedules.

Old programs go on: every new column may be missing from what they write, and they know none of the new tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("cause", sa.String(), nullable=True))
    op.add_column("chunk", sa.Column("fresh", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.create_table(
        "fingerprint",
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("outputs", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("report", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempt.id"], name=op.f("fk_fingerprint_attempt_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_fingerprint_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_fingerprint")),
    )
    op.create_index("ix_fingerprint_digest", "fingerprint", ["digest"])
    op.create_index("ix_fingerprint_job", "fingerprint", ["job_id"])
    op.create_table(
        "worker_key",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker_key")),
        sa.UniqueConstraint("digest", name=op.f("uq_worker_key_digest")),
    )
    op.create_index(
        "uq_worker_key_live", "worker_key", ["name"], unique=True, postgresql_where=sa.text("revoked_at IS NULL")
    )
    op.add_column("worker", sa.Column("key_id", sa.String(length=26), nullable=True))
    op.create_foreign_key(op.f("fk_worker_key_id"), "worker", "worker_key", ["key_id"], ["id"])
    op.create_table(
        "schedule",
        sa.Column("target", sa.String(length=80), nullable=False),
        sa.Column("zone", sa.String(length=64), nullable=False),
        sa.Column("windows", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("target", name=op.f("pk_schedule")),
    )


def downgrade() -> None:
    op.drop_table("schedule")
    op.drop_constraint(op.f("fk_worker_key_id"), "worker", type_="foreignkey")
    op.drop_column("worker", "key_id")
    op.drop_index("uq_worker_key_live", table_name="worker_key", postgresql_where=sa.text("revoked_at IS NULL"))
    op.drop_table("worker_key")
    op.drop_index("ix_fingerprint_job", table_name="fingerprint")
    op.drop_index("ix_fingerprint_digest", table_name="fingerprint")
    op.drop_table("fingerprint")
    op.drop_column("chunk", "fresh")
    op.drop_column("attempt", "cause")
