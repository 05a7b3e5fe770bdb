"""The whole schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column(
            "topic",
            sa.Enum("wake", name="outboxtopic", native_enum=False, create_constraint=True, length=16),
            nullable=False,
        ),
        sa.Column("payload", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_index("ix_outbox_due", "outbox", ["due_at", "id"], unique=False)
    op.create_table(
        "project",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("weight", sa.Double(), server_default="1", nullable=False),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("running", sa.Integer(), server_default="0", nullable=False),
        sa.Column("gpu_seconds", sa.Double(), server_default="0", nullable=False),
        sa.Column("budget_gpu_seconds", sa.Double(), nullable=True),
        sa.Column(
            "budget_action",
            sa.Enum(
                "warn", "stop", "cancel", name="budgetaction", native_enum=False, create_constraint=True, length=16
            ),
            server_default="stop",
            nullable=False,
        ),
        sa.Column(
            "budget_state",
            sa.Enum(
                "open", "warned", "stopped", name="budgetstate", native_enum=False, create_constraint=True, length=16
            ),
            server_default="open",
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("budget_gpu_seconds >= 0", name=op.f("ck_project_budget")),
        sa.CheckConstraint("max_running >= 0", name=op.f("ck_project_max_running")),
        sa.CheckConstraint("running >= 0", name=op.f("ck_project_running")),
        sa.CheckConstraint("weight > 0", name=op.f("ck_project_weight")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
        sa.UniqueConstraint("name", name=op.f("uq_project_name")),
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "starting",
                "awake",
                "asleep",
                "draining",
                "offline",
                "error",
                name="workerstate",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            server_default="starting",
            nullable=False,
        ),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column(
            "requested",
            sa.Enum(
                "awake",
                "asleep",
                "offline",
                "restart",
                name="requestedstate",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            nullable=True,
        ),
        sa.Column("after_task", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("tags", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "capabilities",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("rate", sa.Double(), nullable=True),
        sa.Column("version", sa.String(length=64), server_default="", nullable=False),
        sa.Column("wire", sa.Integer(), server_default="1", nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
    )
    op.create_index(
        "ix_worker_live", "worker", ["seen_at"], unique=False, postgresql_where=sa.text("state <> 'offline'")
    )
    op.create_table(
        "batch",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("project_id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_batch_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_batch_project_id_name")),
    )
    op.create_table(
        "slot",
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(length=100), server_default="cpu", nullable=False),
        sa.Column("vram_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("kinds", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("models", postgresql.ARRAY(sa.String()), nullable=True),
        sa.Column("codecs", postgresql.ARRAY(sa.String()), nullable=True),
        sa.CheckConstraint("vram_mb >= 0", name=op.f("ck_slot_vram_mb")),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name=op.f("fk_slot_worker_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("worker_id", "number", name=op.f("pk_slot")),
    )
    op.create_table(
        "submitter",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("project_id", sa.String(length=26), nullable=False),
        sa.Column("owner", sa.String(length=200), server_default="", nullable=False),
        sa.Column("weight", sa.Double(), server_default="1", nullable=False),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("running", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("max_running >= 0", name=op.f("ck_submitter_max_running")),
        sa.CheckConstraint("running >= 0", name=op.f("ck_submitter_running")),
        sa.CheckConstraint("weight > 0", name=op.f("ck_submitter_weight")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_submitter_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submitter")),
        sa.UniqueConstraint("project_id", "owner", name=op.f("uq_submitter_project_id_owner")),
    )
    op.create_table(
        "webhook",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("project_id", sa.String(length=26), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("kinds", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_webhook_project_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook")),
    )
    op.create_index(op.f("ix_webhook_project_id"), "webhook", ["project_id"], unique=False)
    op.create_table(
        "delivery",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("webhook_id", sa.String(length=26), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("body", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("given_up_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answer", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhook.id"], name=op.f("fk_delivery_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
    )
    op.create_index(
        "ix_delivery_due",
        "delivery",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("delivered_at IS NULL AND given_up_at IS NULL"),
    )
    op.create_index("ix_delivery_webhook", "delivery", ["webhook_id", "id"], unique=False)
    op.create_table(
        "job",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("project_id", sa.String(length=26), nullable=False),
        sa.Column("submitter_id", sa.String(length=26), nullable=False),
        sa.Column("batch_id", sa.String(length=26), nullable=True),
        sa.Column(
            "state",
            sa.Enum(
                "waiting",
                "queued",
                "running",
                "awaiting_cast",
                "merging",
                "pausing",
                "paused",
                "cancelling",
                "cancelled",
                "failed",
                "completed",
                name="jobstate",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column("title", sa.String(length=200), server_default="", nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("request", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("needs_cast", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), server_default="50", nullable=False),
        sa.Column("tags", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("chunk_seconds", sa.Double(), nullable=False),
        sa.Column("max_running", sa.Integer(), nullable=True),
        sa.Column("max_attempts", sa.Integer(), server_default="3", nullable=False),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("mapping", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("mapping_by", sa.String(length=200), nullable=True),
        sa.Column("cast_key", sa.String(), nullable=True),
        sa.Column("cast_members", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("permit", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("consent", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("gpu_seconds", sa.Double(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("chunk_seconds > 0", name=op.f("ck_job_chunk_seconds")),
        sa.CheckConstraint("max_attempts > 0", name=op.f("ck_job_max_attempts")),
        sa.CheckConstraint("max_running > 0", name=op.f("ck_job_max_running")),
        sa.CheckConstraint("priority BETWEEN 0 AND 100", name=op.f("ck_job_priority")),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"], name=op.f("fk_job_batch_id")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_job_project_id")),
        sa.ForeignKeyConstraint(["submitter_id"], ["submitter.id"], name=op.f("fk_job_submitter_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint("seq", name=op.f("uq_job_seq")),
    )
    op.create_index("ix_job_batch", "job", ["batch_id"], unique=False, postgresql_where=sa.text("batch_id IS NOT NULL"))
    op.create_index(
        "ix_job_capped",
        "job",
        ["id"],
        unique=False,
        postgresql_where=sa.text("max_running IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled')"),
    )
    op.create_index(
        "ix_job_finished", "job", ["finished_at"], unique=False, postgresql_where=sa.text("finished_at IS NOT NULL")
    )
    op.create_index(
        "ix_job_open",
        "job",
        ["state", "seq"],
        unique=False,
        postgresql_where=sa.text("state NOT IN ('completed', 'failed', 'cancelled')"),
    )
    op.create_index("ix_job_project_seq", "job", ["project_id", "seq"], unique=False)
    op.create_index("ix_job_state_seq", "job", ["state", "seq"], unique=False)
    op.create_index(
        "uq_job_idempotency",
        "job",
        ["project_id", "idempotency_key"],
        unique=True,
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )
    op.create_table(
        "lane",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("submitter_id", sa.String(length=26), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "plan", "cast", "render", "merge", name="taskkind", native_enum=False, create_constraint=True, length=16
            ),
            nullable=False,
        ),
        sa.Column("tags", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("vram_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("models", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("codecs", postgresql.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("open", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("woken_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("vram_mb >= 0", name=op.f("ck_lane_vram_mb")),
        sa.ForeignKeyConstraint(["submitter_id"], ["submitter.id"], name=op.f("fk_lane_submitter_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lane")),
        sa.UniqueConstraint(
            "submitter_id",
            "kind",
            "tags",
            "vram_mb",
            "models",
            "codecs",
            name=op.f("uq_lane_submitter_id_kind_tags_vram_mb_models_codecs"),
        ),
    )
    op.create_index("ix_lane_open", "lane", ["kind"], unique=False, postgresql_where=sa.text("open"))
    op.create_table(
        "block",
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "plan", "cast", "render", "merge", name="taskkind", native_enum=False, create_constraint=True, length=16
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_block_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("worker_id", "job_id", "kind", name=op.f("pk_block")),
    )
    op.create_index("ix_block_job", "block", ["job_id"], unique=False)
    op.create_table(
        "deliverable",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column(
            "facts",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("current", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("size >= 0", name=op.f("ck_deliverable_size")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_deliverable_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliverable")),
    )
    op.create_index("ix_deliverable_job", "deliverable", ["job_id"], unique=False)
    op.create_index(
        "uq_deliverable_current", "deliverable", ["job_id", "name"], unique=True, postgresql_where=sa.text("current")
    )
    op.create_table(
        "dependency",
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("needs_id", sa.String(length=26), nullable=False),
        sa.Column("hard", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.CheckConstraint("job_id <> needs_id", name=op.f("ck_dependency_other")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_dependency_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["needs_id"], ["job.id"], name=op.f("fk_dependency_needs_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "needs_id", name=op.f("pk_dependency")),
    )
    op.create_index("ix_dependency_needs", "dependency", ["needs_id"], unique=False)
    op.create_table(
        "event",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=True),
        sa.Column("task_id", sa.String(length=26), nullable=True),
        sa.Column("attempt_id", sa.String(length=26), nullable=True),
        sa.Column("worker_id", sa.String(length=64), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("before", sa.String(length=16), nullable=True),
        sa.Column("after", sa.String(length=16), nullable=True),
        sa.Column("actor", sa.String(length=200), server_default="farm", nullable=False),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column(
            "data",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_event_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.create_index("ix_event_at", "event", ["at"], unique=False)
    op.create_index("ix_event_job", "event", ["job_id", "id"], unique=False)
    op.create_table(
        "identity",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("face", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_identity_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
        sa.UniqueConstraint("job_id", "label", name=op.f("uq_identity_job_id_label")),
    )
    op.create_table(
        "plate",
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("object_key", sa.String(), nullable=True),
        sa.Column("uri", sa.String(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("facts", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("timeline_key", sa.String(), nullable=True),
        sa.Column("frames", sa.Integer(), nullable=True),
        sa.Column("by_decode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint("(object_key IS NULL) <> (uri IS NULL)", name=op.f("ck_plate_one_place")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_plate_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_plate")),
    )
    op.create_index("ix_plate_sha256", "plate", ["sha256"], unique=False)
    op.create_table(
        "task",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("lane_id", sa.String(length=26), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "plan", "cast", "render", "merge", name="taskkind", native_enum=False, create_constraint=True, length=16
            ),
            nullable=False,
        ),
        sa.Column("position", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "waiting",
                "ready",
                "running",
                "backoff",
                "paused",
                "done",
                "failed",
                "cancelled",
                name="taskstate",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            nullable=False,
        ),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("job_seq", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("charged", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lost", sa.Integer(), server_default="0", nullable=False),
        sa.Column("shrunk", sa.Integer(), server_default="0", nullable=False),
        sa.Column("handed_back", sa.Integer(), server_default="0", nullable=False),
        sa.Column("delayed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("avoid", postgresql.ARRAY(sa.String(length=64)), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(state = 'backoff') = (not_before IS NOT NULL)", name=op.f("ck_task_backoff")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_task_position")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_task_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["lane_id"], ["lane.id"], name=op.f("fk_task_lane_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
        sa.UniqueConstraint("job_id", "kind", "position", name=op.f("uq_task_job_id_kind_position")),
    )
    op.create_index(
        "ix_task_backoff", "task", ["not_before"], unique=False, postgresql_where=sa.text("state = 'backoff'")
    )
    op.create_index(
        "ix_task_ready",
        "task",
        ["lane_id", sa.literal_column("priority DESC"), "job_seq", "position"],
        unique=False,
        postgresql_where=sa.text("state = 'ready'"),
    )
    op.create_index(
        "ix_task_undone", "task", ["job_id", "kind", "state"], unique=False, postgresql_where=sa.text("state <> 'done'")
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("task_id", sa.String(length=26), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "plan", "cast", "render", "merge", name="taskkind", native_enum=False, create_constraint=True, length=16
            ),
            nullable=False,
        ),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "running",
                "done",
                "failed",
                "interrupted",
                "expired",
                "superseded",
                name="attemptstate",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            server_default="running",
            nullable=False,
        ),
        sa.Column("lease_token", sa.String(length=64), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("progress_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("frames_done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("fps", sa.Double(), nullable=True),
        sa.Column("note", sa.String(length=500), server_default="", nullable=False),
        sa.Column("error_class", sa.String(length=16), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column(
            "environment",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("gpu_seconds", sa.Double(), server_default="0", nullable=False),
        sa.Column("garbage", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("cleaned_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(state = 'running') = (ended_at IS NULL)", name=op.f("ck_attempt_ended")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_attempt_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_attempt_task_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("lease_token", name=op.f("uq_attempt_lease_token")),
        sa.UniqueConstraint("task_id", "number", name=op.f("uq_attempt_task_id_number")),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "ix_attempt_garbage",
        "attempt",
        ["ended_at"],
        unique=False,
        postgresql_where=sa.text("garbage AND cleaned_at IS NULL"),
    )
    op.create_index("ix_attempt_job", "attempt", ["job_id", "started_at"], unique=False)
    op.create_index(
        "ix_attempt_running_job", "attempt", ["job_id"], unique=False, postgresql_where=sa.text("state = 'running'")
    )
    op.create_index(
        "ix_attempt_running_worker",
        "attempt",
        ["worker_id"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index(
        "uq_attempt_running", "attempt", ["task_id"], unique=True, postgresql_where=sa.text("state = 'running'")
    )
    op.create_table(
        "chunk",
        sa.Column("task_id", sa.String(length=26), nullable=False),
        sa.Column("job_id", sa.String(length=26), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("segment_key", sa.String(), nullable=False),
        sa.Column("segment_sha256", sa.String(length=64), nullable=False),
        sa.Column("segment_size", sa.BigInteger(), nullable=False),
        sa.Column(
            "plan",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("by_decode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("as_is", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("attempt_id", sa.String(length=26), nullable=True),
        sa.Column("outputs", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("report", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint("(outputs IS NULL) = (attempt_id IS NULL)", name=op.f("ck_chunk_accepted")),
        sa.CheckConstraint("first >= 0 AND last > first", name=op.f("ck_chunk_frames")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_chunk_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_chunk_task_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_chunk")),
        sa.UniqueConstraint("job_id", "position", name=op.f("uq_chunk_job_id_position")),
    )
    op.create_table(
        "identity_picture",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("identity_id", sa.String(length=26), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("object_key", sa.String(), nullable=True),
        sa.Column("uri", sa.String(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.CheckConstraint("(object_key IS NULL) <> (uri IS NULL)", name=op.f("ck_identity_picture_one_place")),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["identity.id"], name=op.f("fk_identity_picture_identity_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity_picture")),
        sa.UniqueConstraint("identity_id", "position", name=op.f("uq_identity_picture_identity_id_position")),
    )


def downgrade() -> None:
    op.drop_table("identity_picture")
    op.drop_table("chunk")
    op.drop_index("uq_attempt_running", table_name="attempt", postgresql_where=sa.text("state = 'running'"))
    op.drop_index("ix_attempt_running_worker", table_name="attempt", postgresql_where=sa.text("state = 'running'"))
    op.drop_index("ix_attempt_running_job", table_name="attempt", postgresql_where=sa.text("state = 'running'"))
    op.drop_index("ix_attempt_job", table_name="attempt")
    op.drop_index(
        "ix_attempt_garbage", table_name="attempt", postgresql_where=sa.text("garbage AND cleaned_at IS NULL")
    )
    op.drop_table("attempt")
    op.drop_index("ix_task_undone", table_name="task", postgresql_where=sa.text("state <> 'done'"))
    op.drop_index("ix_task_ready", table_name="task", postgresql_where=sa.text("state = 'ready'"))
    op.drop_index("ix_task_backoff", table_name="task", postgresql_where=sa.text("state = 'backoff'"))
    op.drop_table("task")
    op.drop_index("ix_plate_sha256", table_name="plate")
    op.drop_table("plate")
    op.drop_table("identity")
    op.drop_index("ix_event_job", table_name="event")
    op.drop_index("ix_event_at", table_name="event")
    op.drop_table("event")
    op.drop_index("ix_dependency_needs", table_name="dependency")
    op.drop_table("dependency")
    op.drop_index("uq_deliverable_current", table_name="deliverable", postgresql_where=sa.text("current"))
    op.drop_index("ix_deliverable_job", table_name="deliverable")
    op.drop_table("deliverable")
    op.drop_index("ix_block_job", table_name="block")
    op.drop_table("block")
    op.drop_index("ix_lane_open", table_name="lane", postgresql_where=sa.text("open"))
    op.drop_table("lane")
    op.drop_index("uq_job_idempotency", table_name="job", postgresql_where=sa.text("idempotency_key IS NOT NULL"))
    op.drop_index("ix_job_state_seq", table_name="job")
    op.drop_index("ix_job_project_seq", table_name="job")
    op.drop_index(
        "ix_job_open", table_name="job", postgresql_where=sa.text("state NOT IN ('completed', 'failed', 'cancelled')")
    )
    op.drop_index("ix_job_finished", table_name="job", postgresql_where=sa.text("finished_at IS NOT NULL"))
    op.drop_index(
        "ix_job_capped",
        table_name="job",
        postgresql_where=sa.text("max_running IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled')"),
    )
    op.drop_index("ix_job_batch", table_name="job", postgresql_where=sa.text("batch_id IS NOT NULL"))
    op.drop_table("job")
    op.drop_index("ix_delivery_webhook", table_name="delivery")
    op.drop_index(
        "ix_delivery_due",
        table_name="delivery",
        postgresql_where=sa.text("delivered_at IS NULL AND given_up_at IS NULL"),
    )
    op.drop_table("delivery")
    op.drop_index(op.f("ix_webhook_project_id"), table_name="webhook")
    op.drop_table("webhook")
    op.drop_table("submitter")
    op.drop_table("slot")
    op.drop_table("batch")
    op.drop_index("ix_worker_live", table_name="worker", postgresql_where=sa.text("state <> 'offline'"))
    op.drop_table("worker")
    op.drop_table("project")
    op.drop_index("ix_outbox_due", table_name="outbox")
    op.drop_table("outbox")
