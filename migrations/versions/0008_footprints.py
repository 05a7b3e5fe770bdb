"""What recipes were measured to need of a card's memory, so that claims leave chunks to slots in which they fit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "footprint",
        sa.Column("recipe", sa.String(64), nullable=False),
        sa.Column("card", sa.String(100), nullable=False),
        sa.Column("needs_mb", sa.Integer(), nullable=False),
        sa.Column("seen_mb", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("recipe", "card", name=op.f("pk_footprint")),
    )


def downgrade() -> None:
    op.drop_table("footprint")
