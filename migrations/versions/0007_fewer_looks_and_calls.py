"""Claims that look into few lanes, and one call by which a slot reports and says that its worker lives.

Only additions. The functions of the version before stay for as long as a worker may call them; as they do not keep
`lane.top`, the reconciler does (`farm.jobs.reconcile.waking.LaneCloser`), and 100 stands for "not known".
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from farm.db.online import add_columns

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# As `farm_take_1` (0003, 0006), with the same answer, but cheaper. Stage 1: of the lanes that could hold a task of the
# highest priority (`lane.top` says so without a look at tasks), those of the people with the least share. Where such a
# lane's most urgent task has that priority, no other can come before it. Else stage 2: the heads of all lanes.
_TAKE = """CREATE OR REPLACE FUNCTION farm_take_2(
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
    v_stage int;
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
    FOR v_stage IN 1..2 LOOP
    FOR r IN
        WITH fit AS MATERIALIZED (
            SELECT l.id AS lane, l.kind, l.top, s.id AS submitter, p.id AS project,
                   p.max_running IS NOT NULL OR s.max_running IS NOT NULL AS capped,
                   (p.running + 1 - (p.id = v_freed_project)::int) / p.weight AS project_share,
                   (s.running + 1 - (s.id = p_freed)::int) / s.weight AS share
            FROM lane l
            JOIN submitter s ON s.id = l.submitter_id
            JOIN project p ON p.id = s.project_id
            WHERE l.open AND l.kind = ANY (v_kinds)
              AND l.tags <@ v_tags AND (NOT v_exclusive OR l.tags && v_tags)
              AND l.vram_mb <= v_vram
              AND (v_models IS NULL OR l.models <@ v_models)
              AND (v_codecs IS NULL OR l.codecs <@ v_codecs)
              AND l.wire <= coalesce((p_slot->>'wire')::int, 1)
              AND p.budget_state <> 'stopped'
              AND (p.max_running IS NULL OR p.running - (p.id = v_freed_project)::int < p.max_running)
              AND (s.max_running IS NULL OR s.running - (s.id = p_freed)::int < s.max_running)),
        chosen AS (
            SELECT * FROM fit WHERE v_stage = 2
            OR (top, project_share, share) = (SELECT top, project_share, share FROM fit
                                              ORDER BY top DESC, project_share, share LIMIT 1))
        SELECT c.*
        FROM chosen c
        CROSS JOIN LATERAL (
            SELECT t.priority, t.due, t.job_seq FROM task t
            WHERE t.lane_id = c.lane AND t.state = 'ready' AND v_worker <> ALL (t.avoid)
              AND t.job_id || t.kind <> ALL (v_blocked) AND t.job_id <> ALL (v_full)
            ORDER BY t.priority DESC, t.due, t.job_seq, t.position LIMIT 1) head
        WHERE v_stage = 2 OR head.priority = c.top
        ORDER BY head.priority DESC, c.project_share, c.share, head.due, head.job_seq,
                 CASE c.kind WHEN 'merge' THEN 0 WHEN 'plan' THEN 1 WHEN 'cast' THEN 2 ELSE 3 END
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
    END LOOP;
END $$"""

# As `farm_claim_1`.
_CLAIM = """CREATE OR REPLACE FUNCTION farm_claim_2(
    p_slot jsonb, p_policy jsonb, p_attempt text, p_token text, OUT taken jsonb, OUT work jsonb)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    t record;
BEGIN
    t := farm_take_2(p_slot, p_policy, p_attempt, p_token, '');
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

# As `farm_finish_render_1`.
_FINISH = """CREATE OR REPLACE FUNCTION farm_finish_render_2(
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
        t := farm_take_2(p_slot, p_policy, p_attempt, p_token, v_submitter);
        outcome := t.outcome;
        IF outcome = 'taken' THEN
            taken := to_jsonb(t);
            work := farm_work_1(t.task, t.job);
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(j.id, 0))
        FROM (SELECT DISTINCT id FROM unnest(ARRAY[p_job, taken->>'job']) AS id WHERE id IS NOT NULL ORDER BY id) j;
    INSERT INTO event (kind, job_id, task_id, attempt_id, worker_id, before, after, reason, data)
        SELECT 'attempt.state', p_job, p_task, v_ended, v_worker, 'running', 'done', 'It finished.',
               jsonb_build_object('position', v_position, 'kind', 'render', 'number', v_number)
        UNION ALL
        SELECT 'render.state', p_job, p_task, v_ended, v_worker, 'running', 'done', 'Done.',
               jsonb_build_object('position', v_position)
        UNION ALL
        SELECT 'attempt.state', taken->>'job', taken->>'task', p_attempt, p_slot->>'worker_id', NULL, 'running',
               'A slot claimed it.',
               jsonb_build_object('kind', taken->'kind', 'position', taken->'place', 'number', taken->'number',
                                  'slot', p_slot->'number', 'task', '["ready", "running"]'::jsonb)
        WHERE taken IS NOT NULL;
    FOR n IN
        SELECT s.project_id AS id, sum(c.running)::int AS running, sum(c.seconds) AS seconds
        FROM (VALUES (v_submitter, -1, v_seconds), (taken->>'submitter', 1, 0)) AS c(id, running, seconds)
        JOIN submitter s ON s.id = c.id GROUP BY s.project_id ORDER BY s.project_id
    LOOP
        UPDATE project p SET running = p.running + n.running, gpu_seconds = p.gpu_seconds + n.seconds,
                money = p.money
                    + n.seconds / 3600 * coalesce((SELECT w.rate FROM worker w WHERE w.id = v_worker), 0)
            WHERE p.id = n.id;
    END LOOP;
    FOR n IN
        SELECT c.id, sum(c.running)::int AS running
        FROM (VALUES (v_submitter, -1), (taken->>'submitter', 1)) AS c(id, running)
        WHERE c.id IS NOT NULL GROUP BY c.id HAVING sum(c.running) <> 0 ORDER BY c.id
    LOOP
        UPDATE submitter s SET running = s.running + n.running WHERE s.id = n.id;
    END LOOP;
END $$"""

# Says that a worker lives of which nobody wants anything, so with all but a few; after how many seconds it is to be
# said again (all workers together say it `p_per_second` times; their number is the planner's estimate), or NULL: it
# has to be asked and told by itself. A row that somebody else has just now is not waited for.
_LIVES = """
CREATE OR REPLACE FUNCTION farm_lives_1(p_worker text, p_per_second float8) RETURNS float8
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM FROM worker w WHERE w.id = p_worker AND w.state = 'awake' AND w.requested IS NULL AND NOT EXISTS (
        SELECT FROM schedule s
        WHERE s.target = 'worker:' || w.id OR s.target IN (SELECT 'tag:' || tag FROM unnest(w.tags) tag))
        FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE worker w SET seen_at = clock_timestamp() WHERE w.id = p_worker;
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN (SELECT greatest(0, reltuples) / p_per_second FROM pg_class WHERE oid = 'worker'::regclass);
END $$"""

# A report of a running attempt; no row where its lease does not hold any more. The lease of one that has been told to
# stop is made shorter: a worker that does not listen soon loses it. carried: what `farm_lives_1` says of its worker,
# whose row is touched last, so that nobody who has it and wants the attempt is waited for.
_BEAT = """
CREATE OR REPLACE FUNCTION farm_beat_1(
    p_token text, p_frames int, p_fps float8, p_note text, p_environment jsonb, p_policy jsonb, p_carries boolean)
RETURNS TABLE (state text, seconds float8, draining boolean, carried float8)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_every float8;
    v_state text;
    v_worker text;
BEGIN
    SELECT (p_policy->>'heartbeat')::float8
           * greatest(1.0, sum(p.running) / ((p_policy->>'per_second')::float8 * (p_policy->>'heartbeat')::float8))
        INTO v_every FROM project p;
    UPDATE attempt a SET
            beat_at = clock_timestamp(),
            lease_until = CASE WHEN j.state IN ('queued', 'running', 'awaiting_cast', 'merging')
                THEN clock_timestamp() + make_interval(secs => greatest((p_policy->>'lease')::float8, 4 * v_every))
                ELSE least(a.lease_until,
                           clock_timestamp() + make_interval(secs => (p_policy->>'stop')::float8)) END,
            progress_at = CASE WHEN a.frames_done <> p_frames OR a.note <> p_note THEN clock_timestamp()
                ELSE a.progress_at END,
            frames_done = p_frames, fps = p_fps, note = p_note, environment = a.environment || p_environment
        FROM job j
        WHERE a.lease_token = p_token AND a.state = 'running' AND j.id = a.job_id
        RETURNING j.state, a.worker_id INTO v_state, v_worker;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY SELECT v_state, v_every,
        EXISTS (SELECT FROM worker w WHERE w.id = v_worker
                AND w.requested IN ('asleep', 'offline', 'restart') AND NOT w.after_task),
        CASE WHEN p_carries THEN farm_lives_1(v_worker, (p_policy->>'workers')::float8) END;
END $$"""


def upgrade() -> None:
    add_columns(("lane", sa.Column("top", sa.Integer(), server_default=sa.text("100"), nullable=False)))
    for function in (_TAKE, _CLAIM, _FINISH, _LIVES, _BEAT):
        op.execute(function)


def downgrade() -> None:
    for function in ("farm_beat_1", "farm_lives_1", "farm_finish_render_2", "farm_claim_2", "farm_take_2"):
        op.execute(f"DROP FUNCTION {function}")
    op.drop_column("lane", "top")
