"""A claim and the end of a render as one statement; deadlines in the order of claims.

Only additions, so that workers of the version before go on claiming meanwhile. What is theirs alone and goes with a
later release: the index `ix_task_ready`, whose order knows no deadline.

The functions' names end in the number of their meaning: a change makes new ones, and the old ones stay for as long as
a worker may call them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from farm.db.online import add_columns

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# The most urgent task that a slot may do, made running, with an attempt and a lease: `farm.jobs.claim` says by what
# order. The event, the counts of people without a cap, and the payload are the caller's.
# freed: the submitter whose attempt ends in this transaction and is still counted, or ''.
# outcome: 'taken', 'none', or (with freed only) 'alone': caps are at work. Their locks must not be waited for while the
# locks of the ended attempt's job are held, so the claim has to be made in a transaction of its own.
_TAKE = """
CREATE OR REPLACE FUNCTION farm_take_1(
    p_slot jsonb, p_policy jsonb, p_attempt text, p_token text, p_freed text,
    OUT outcome text, OUT task text, OUT job text, OUT kind text, OUT place int, OUT number int, OUT shrunk int,
    OUT submitter text, OUT counted boolean, OUT until timestamptz, OUT beat float8)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_worker text := p_slot->>'worker_id';
    v_kinds text[] := ARRAY(SELECT jsonb_array_elements_text(p_slot->'kinds'));
    v_tags varchar[] := ARRAY(SELECT jsonb_array_elements_text(p_slot->'tags'));
    v_models varchar[] := CASE WHEN jsonb_typeof(p_slot->'models') = 'array'
        THEN ARRAY(SELECT jsonb_array_elements_text(p_slot->'models')) END;
    v_codecs varchar[] := CASE WHEN jsonb_typeof(p_slot->'codecs') = 'array'
        THEN ARRAY(SELECT jsonb_array_elements_text(p_slot->'codecs')) END;
    v_exclusive boolean := (p_slot->>'exclusive')::boolean;
    v_vram int := (p_slot->>'vram_mb')::int;
    v_freed_project text := coalesce((SELECT s.project_id FROM submitter s WHERE s.id = p_freed), '');
    v_capped_jobs boolean;
    v_capped boolean;
    v_full text[];
    v_blocked text[];
    v_task text;
    r record;
BEGIN
    outcome := 'none';
    counted := false;
    IF EXISTS (SELECT FROM worker w WHERE w.id = v_worker AND (w.state IN ('asleep', 'draining', 'offline', 'error')
               OR w.requested IN ('asleep', 'offline', 'restart'))) THEN
        RETURN;
    END IF;
    SELECT count(*) > 0, coalesce(array_agg(j.id) FILTER (WHERE j.max_running <= (
               SELECT count(*) FROM attempt a WHERE a.job_id = j.id AND a.state = 'running')), '{}')
        INTO v_capped_jobs, v_full
        FROM job j WHERE j.max_running IS NOT NULL AND j.state NOT IN ('completed', 'failed', 'cancelled');
    v_blocked := ARRAY(SELECT b.job_id || b.kind FROM block b WHERE b.worker_id = v_worker);
    SELECT (p_policy->>'heartbeat')::float8
           * greatest(1.0, sum(p.running) / ((p_policy->>'per_second')::float8 * (p_policy->>'heartbeat')::float8))
        INTO beat FROM project p;
    FOR r IN
        SELECT l.id AS lane, s.id AS submitter, p.id AS project,
               p.max_running IS NOT NULL OR s.max_running IS NOT NULL AS capped
        FROM lane l
        JOIN submitter s ON s.id = l.submitter_id
        JOIN project p ON p.id = s.project_id
        CROSS JOIN LATERAL (
            SELECT t.priority, t.due, t.job_seq FROM task t
            WHERE t.lane_id = l.id AND t.state = 'ready' AND v_worker <> ALL (t.avoid)
              AND t.job_id || t.kind <> ALL (v_blocked) AND t.job_id <> ALL (v_full)
            ORDER BY t.priority DESC, t.due, t.job_seq, t.position LIMIT 1) head
        WHERE l.open AND l.kind = ANY (v_kinds)
          AND l.tags <@ v_tags AND (NOT v_exclusive OR l.tags && v_tags)
          AND l.vram_mb <= v_vram
          AND (v_models IS NULL OR l.models <@ v_models)
          AND (v_codecs IS NULL OR l.codecs <@ v_codecs)
          AND p.budget_state <> 'stopped'
          AND (p.max_running IS NULL OR p.running - (p.id = v_freed_project)::int < p.max_running)
          AND (s.max_running IS NULL OR s.running - (s.id = p_freed)::int < s.max_running)
        ORDER BY head.priority DESC,
                 (p.running + 1 - (p.id = v_freed_project)::int) / p.weight,
                 (s.running + 1 - (s.id = p_freed)::int) / s.weight,
                 head.due, head.job_seq,
                 CASE l.kind WHEN 'merge' THEN 0 WHEN 'plan' THEN 1 WHEN 'cast' THEN 2 ELSE 3 END
        LIMIT 32
    LOOP
        SELECT t.id, t.job_id INTO v_task, job FROM task t
            WHERE t.lane_id = r.lane AND t.state = 'ready' AND v_worker <> ALL (t.avoid)
              AND t.job_id || t.kind <> ALL (v_blocked) AND t.job_id <> ALL (v_full)
            ORDER BY t.priority DESC, t.due, t.job_seq, t.position LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_capped := r.capped OR (v_capped_jobs
            AND EXISTS (SELECT FROM job j WHERE j.id = job AND j.max_running IS NOT NULL));
        IF v_capped AND p_freed <> '' THEN
            outcome := 'alone';
            RETURN;
        END IF;
        IF v_capped THEN
            BEGIN  -- one claim of the job at a time from here on; what was raised falls back if there is no room
                PERFORM pg_advisory_xact_lock(hashtextextended(job, 0));
                IF EXISTS (SELECT FROM job j WHERE j.id = job AND j.max_running <= (
                           SELECT count(*) FROM attempt a WHERE a.job_id = j.id AND a.state = 'running')) THEN
                    RAISE EXCEPTION SQLSTATE 'FA001';
                END IF;
                UPDATE project p SET running = p.running + 1
                    WHERE r.capped AND p.id = r.project AND (p.max_running IS NULL OR p.running < p.max_running);
                IF r.capped AND NOT FOUND THEN
                    RAISE EXCEPTION SQLSTATE 'FA001';
                END IF;
                UPDATE submitter s SET running = s.running + 1
                    WHERE r.capped AND s.id = r.submitter AND (s.max_running IS NULL OR s.running < s.max_running);
                IF r.capped AND NOT FOUND THEN
                    RAISE EXCEPTION SQLSTATE 'FA001';
                END IF;
                counted := r.capped;
            EXCEPTION WHEN SQLSTATE 'FA001' THEN
                CONTINUE;
            END;
        END IF;
        UPDATE task t SET state = 'running', attempts = t.attempts + 1, reason = 'A slot claimed it.'
            WHERE t.id = v_task
            RETURNING t.kind, t.position, t.attempts, t.shrunk INTO kind, place, number, shrunk;
        INSERT INTO attempt (id, task_id, job_id, kind, worker_id, slot, number, state, lease_token, lease_until)
            VALUES (p_attempt, v_task, job, kind, v_worker, (p_slot->>'number')::int, number, 'running', p_token,
                    clock_timestamp() + make_interval(secs => greatest((p_policy->>'lease')::float8, 4 * beat)))
            RETURNING lease_until INTO until;
        outcome := 'taken';
        task := v_task;
        submitter := r.submitter;
        RETURN;
    END LOOP;
END $$"""

# What a worker must know of the task that it took.
_WORK = """
CREATE OR REPLACE FUNCTION farm_work_1(p_task text, p_job text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'request', j.request, 'mapping', j.mapping, 'cast_key', j.cast_key, 'needs_cast', j.needs_cast,
        'consent', j.consent, 'permit', j.permit, 'project', p.name, 'facts', e.facts, 'frames', e.frames,
        'timeline_key', e.timeline_key, 'by_decode', e.by_decode,
        'planned', EXISTS (SELECT FROM task t WHERE t.job_id = j.id AND t.kind = 'plan' AND t.position = 0
                           AND t.state = 'done'),
        'chunk', to_jsonb(c))
    FROM job j JOIN project p ON p.id = j.project_id JOIN plate e ON e.job_id = j.id
    LEFT JOIN chunk c ON c.task_id = p_task
    WHERE j.id = p_job
$$"""

# A claim, whole: one transaction with nothing else in it. Its commit is not waited for on the disk: a crash of the
# server that loses it loses a lease, which the attempt hears of with its next report, and nothing else.
_CLAIM = """
CREATE OR REPLACE FUNCTION farm_claim_1(
    p_slot jsonb, p_policy jsonb, p_attempt text, p_token text, OUT taken jsonb, OUT work jsonb)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    t record;
BEGIN
    t := farm_take_1(p_slot, p_policy, p_attempt, p_token, '');
    IF t.outcome <> 'taken' THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    taken := to_jsonb(t);
    work := farm_work_1(t.task, t.job);
    PERFORM pg_advisory_xact_lock(hashtextextended(t.job, 0));
    INSERT INTO event (kind, job_id, task_id, attempt_id, worker_id, after, reason, data)
        VALUES ('attempt.state', t.job, t.task, p_attempt, p_slot->>'worker_id', 'running', 'A slot claimed it.',
                jsonb_build_object('kind', t.kind, 'position', t.place, 'number', t.number,
                                   'slot', (p_slot->>'number')::int, 'task', '["ready", "running"]'::jsonb));
    IF NOT t.counted THEN
        UPDATE project p SET running = p.running + 1 FROM submitter s WHERE s.id = t.submitter AND p.id = s.project_id;
        UPDATE submitter s SET running = s.running + 1 WHERE s.id = t.submitter;
    END IF;
END $$"""

# The end of a render after which other chunks of the job are still to be rendered, and, where a slot is given, the
# slot's next claim. outcome: 'careful' (nothing was changed: something is out of the ordinary), 'done', 'alone' (done,
# but the claim has to be made by itself), 'taken', 'none'.
# Locks: the job and its attempt, then (SKIP LOCKED) the next task, then both jobs' events, projects and submitters,
# each in the order of their ids, so that two that change places never wait for each other in a circle.
_FINISH = """
CREATE OR REPLACE FUNCTION farm_finish_render_1(
    p_job text, p_task text, p_lease text, p_frames int, p_outputs jsonb, p_report jsonb, p_environment jsonb,
    p_slot jsonb, p_policy jsonb, p_attempt text, p_token text, OUT outcome text, OUT taken jsonb, OUT work jsonb)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_submitter text;
    v_ended text;
    v_worker text;
    v_number int;
    v_seconds float8;
    v_position int;
    t record;
    n record;
BEGIN
    outcome := 'careful';
    SELECT j.submitter_id INTO v_submitter FROM job j WHERE j.id = p_job AND j.state = 'running'
        AND p_outputs ?& ARRAY(SELECT jsonb_array_elements_text(j.request->'deliverables'))
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE attempt a SET state = 'done', ended_at = clock_timestamp(), frames_done = p_frames,
            gpu_seconds = extract(epoch FROM clock_timestamp() - a.started_at),
            environment = a.environment || p_environment
        WHERE a.lease_token = p_lease AND a.task_id = p_task AND a.state = 'running'
          AND EXISTS (SELECT FROM chunk c WHERE c.task_id = p_task AND c.last - c.first = p_frames)
          AND EXISTS (SELECT FROM task o WHERE o.job_id = p_job AND o.kind = 'render' AND o.id <> p_task
                      AND o.state IN ('waiting', 'ready', 'running', 'backoff', 'paused') AND o.state <> 'done')
        RETURNING a.id, a.worker_id, a.number, a.gpu_seconds INTO v_ended, v_worker, v_number, v_seconds;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE task SET state = 'done', reason = 'Done.', done_at = clock_timestamp() WHERE id = p_task
        RETURNING position INTO v_position;
    UPDATE chunk SET attempt_id = v_ended, outputs = p_outputs, report = p_report WHERE task_id = p_task;
    UPDATE job SET gpu_seconds = gpu_seconds + v_seconds WHERE id = p_job;
    outcome := 'done';
    IF p_slot IS NOT NULL THEN
        t := farm_take_1(p_slot, p_policy, p_attempt, p_token, v_submitter);
        outcome := t.outcome;
        IF outcome = 'taken' THEN
            taken := to_jsonb(t);
            work := farm_work_1(t.task, t.job);
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(j.id, 0))
        FROM (SELECT DISTINCT id FROM unnest(ARRAY[p_job, taken->>'job']) AS id WHERE id IS NOT NULL ORDER BY id) j;
    INSERT INTO event (kind, job_id, task_id, attempt_id, worker_id, before, after, reason, data) VALUES
        ('attempt.state', p_job, p_task, v_ended, v_worker, 'running', 'done', 'It finished.',
         jsonb_build_object('position', v_position, 'kind', 'render', 'number', v_number)),
        ('render.state', p_job, p_task, v_ended, v_worker, 'running', 'done', 'Done.',
         jsonb_build_object('position', v_position));
    IF taken IS NOT NULL THEN
        INSERT INTO event (kind, job_id, task_id, attempt_id, worker_id, after, reason, data)
            VALUES ('attempt.state', t.job, t.task, p_attempt, p_slot->>'worker_id', 'running', 'A slot claimed it.',
                    jsonb_build_object('kind', t.kind, 'position', t.place, 'number', t.number,
                                       'slot', (p_slot->>'number')::int, 'task', '["ready", "running"]'::jsonb));
    END IF;
    FOR n IN
        SELECT s.project_id AS id, sum(c.running)::int AS running, sum(c.seconds) AS seconds
        FROM (VALUES (v_submitter, -1, v_seconds), (taken->>'submitter', 1, 0)) AS c(id, running, seconds)
        JOIN submitter s ON s.id = c.id GROUP BY s.project_id ORDER BY s.project_id
    LOOP
        UPDATE project p SET running = p.running + n.running, gpu_seconds = p.gpu_seconds + n.seconds WHERE p.id = n.id;
    END LOOP;
    FOR n IN
        SELECT c.id, sum(c.running)::int AS running
        FROM (VALUES (v_submitter, -1), (taken->>'submitter', 1)) AS c(id, running)
        WHERE c.id IS NOT NULL GROUP BY c.id HAVING sum(c.running) <> 0 ORDER BY c.id
    LOOP
        UPDATE submitter s SET running = s.running + n.running WHERE s.id = n.id;
    END LOOP;
END $$"""


def upgrade() -> None:
    add_columns(
        ("task", sa.Column("due", sa.DateTime(timezone=True), nullable=True)),
        ("job", sa.Column("late_since", sa.DateTime(timezone=True), nullable=True)),
    )
    for function in (_TAKE, _WORK, _CLAIM, _FINISH):
        op.execute(function)
    with op.get_context().autocommit_block():
        for name, table, columns, condition in _INDEXES:
            # one that was left half made by a migration that was broken off is of no use
            op.drop_index(name, table, postgresql_concurrently=True, if_exists=True)
            op.create_index(name, table, columns, postgresql_where=sa.text(condition), postgresql_concurrently=True)
        _backfill()


_INDEXES = (
    ("ix_task_claim", "task", ["lane_id", sa.text("priority DESC"), "due", "job_seq", "position"], "state = 'ready'"),
    (
        "ix_job_deadline",
        "job",
        ["deadline"],
        "deadline IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled')",
    ),
)


def _backfill() -> None:
    """The deadlines of jobs that are open, job by job: each a short transaction that locks as every command does."""
    connection = op.get_bind()
    jobs = connection.scalars(
        sa.text("SELECT id FROM job WHERE deadline IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled')")
    ).all()
    for job in jobs:
        connection.execute(
            sa.text("""
                WITH held AS MATERIALIZED (SELECT id, deadline FROM job WHERE id = :job FOR NO KEY UPDATE)
                UPDATE task SET due = held.deadline FROM held WHERE task.job_id = held.id AND task.state <> 'done'"""),
            {"job": job},
        )


def downgrade() -> None:
    for function in ("farm_finish_render_1", "farm_claim_1", "farm_work_1", "farm_take_1"):
        op.execute(f"DROP FUNCTION {function}")
    op.drop_index("ix_job_deadline", "job")
    op.drop_index("ix_task_claim", "task")
    op.drop_column("job", "late_since")
    op.drop_column("task", "due")
