"""Results that are kept while a job is rendered again: found without a look at all the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_fingerprint_kept", "fingerprint", ["job_id"], postgresql_where=sa.text("outputs IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("ix_fingerprint_kept", table_name="fingerprint", postgresql_where=sa.text("outputs IS NOT NULL"))
