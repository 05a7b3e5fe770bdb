"""Fills a database as a large farm has it: projects, jobs, a million chunks, workers in the middle of their work."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, text

from farm import jobs
from farm.db.engine import Sessions, make_engine, make_sessions
from farm.recipe import preset

SHA = "0" * 64
OUT = jobs.ObjectOut(key="bench", sha256=SHA, size=1)


@dataclass(frozen=True, slots=True)
class Size:
    """How large the farm is. `running` of the chunks are being rendered, one by each worker."""

    projects: int = 50
    jobs: int = 2_000
    chunks: int = 1_000_000
    workers: int = 10_000

    @property
    def per_job(self) -> int:
        return self.chunks // self.jobs


def request(project: str, owner: str = "") -> jobs.JobRequest:
    return jobs.JobRequest(
        project=project,
        owner=owner,
        plate=jobs.PlateRef(object_key="bench/plate", sha256=SHA, size=1),
        recipe=preset("passthrough"),
        deliverables=("review",),
    )


def open_farm(url: str, pool: int = 4) -> Sessions:
    return make_sessions(make_engine(url, application="facefarm-bench", pool_size=pool))


def rendered(frames: int) -> jobs.RenderResult:
    return jobs.RenderResult(frames=frames, outputs={"review": OUT})


def fill(engine: Engine, size: Size) -> None:
    """Submit one job for each project as people do, then multiply them and give them chunks by plain SQL.

    Half of the chunks are done. Rows that are made of rows that are there need no check of their references.
    """
    sessions = make_sessions(engine)
    for number in range(size.projects):
        with sessions.begin() as session:
            jobs.submit(session, request(f"project {number}"))
    with engine.begin() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        connection.execute(text("SET LOCAL synchronous_commit = off"))
        for statement in (*_JOBS, *_CHUNKS):
            connection.execute(text(statement), _numbers(size))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))


def _numbers(size: Size) -> dict[str, int]:
    return {
        "per_job": size.per_job,
        "jobs": size.jobs,
        "workers": size.workers,
        "copies": size.jobs // size.projects - 1,
    }


# the same row but for what is given: a table's columns need not be listed
_JOBS = (
    """INSERT INTO job SELECT copy.* FROM job j CROSS JOIN generate_series(1, :copies) n CROSS JOIN LATERAL
       jsonb_populate_record(j, jsonb_build_object('id', lpad(n::text, 6, 'J') || substr(j.id, 7),
                             'seq', nextval(pg_get_serial_sequence('job', 'seq')))) copy""",
    """INSERT INTO plate SELECT copy.* FROM plate p CROSS JOIN generate_series(1, :copies) n CROSS JOIN LATERAL
       jsonb_populate_record(p, jsonb_build_object('job_id', lpad(n::text, 6, 'J') || substr(p.job_id, 7))) copy""",
    """INSERT INTO task SELECT copy.* FROM task t JOIN job old ON old.id = t.job_id
       CROSS JOIN generate_series(1, :copies) n
       JOIN job new ON new.id = lpad(n::text, 6, 'J') || substr(t.job_id, 7) CROSS JOIN LATERAL
       jsonb_populate_record(t, jsonb_build_object('id', lpad(n::text, 6, 'J') || substr(t.id, 7),
                             'job_id', new.id, 'job_seq', new.seq)) copy""",
)

_LANES = """
    INSERT INTO lane (id, submitter_id, kind, open, top) SELECT lpad(s.id, 26, 'L'), s.id, 'render', true, 50
    FROM (SELECT id FROM submitter) s ON CONFLICT DO NOTHING"""

# ids only have to be unique and 26 characters long
_TASKS = """
    INSERT INTO task (id, job_id, lane_id, kind, position, state, reason, priority, job_seq, ready_at, done_at,
                      attempts)
    SELECT lpad(j.seq::text, 13, 'T') || lpad(n::text, 13, '0'), j.id, l.id, 'render', n,
           CASE WHEN n < :per_job / 2 THEN 'done' WHEN n < :per_job / 2 + :workers / :jobs THEN 'running'
                ELSE 'ready' END,
           '', 50, j.seq, now(), CASE WHEN n < :per_job / 2 THEN now() END,
           CASE WHEN n < :per_job / 2 THEN 1 ELSE 0 END
    FROM job j JOIN lane l ON l.submitter_id = j.submitter_id AND l.kind = 'render'
    CROSS JOIN generate_series(0, :per_job - 1) n"""

_CHUNK_ROWS = """
    INSERT INTO chunk (task_id, job_id, position, first, last, seconds, segment_key, segment_sha256, segment_size,
                       attempt_id, outputs)
    SELECT t.id, t.job_id, t.position, t.position * 480, (t.position + 1) * 480, 20,
           'jobs/' || t.job_id || '/segments/' || t.position, repeat('0', 64), 1000000,
           CASE WHEN t.state = 'done' THEN 'A' || substr(t.id, 2) END,
           CASE WHEN t.state = 'done' THEN jsonb_build_object('review', jsonb_build_object(
               'key', 'jobs/' || t.job_id || '/chunks/' || t.position, 'sha256', repeat('0', 64), 'size', 1)) END
    FROM task t WHERE t.kind = 'render'"""

_ATTEMPTS = """
    INSERT INTO attempt (id, task_id, job_id, kind, worker_id, slot, number, state, lease_token, lease_until, ended_at,
                         frames_done)
    SELECT 'A' || substr(t.id, 2), t.id, t.job_id, 'render',
           'w' || (row_number() OVER (PARTITION BY t.state) % :workers), 0, 1,
           t.state, 'token ' || t.id, now() + interval '1 hour', CASE WHEN t.state = 'done' THEN now() END, 480
    FROM task t WHERE t.kind = 'render' AND t.state IN ('done', 'running')"""

_CHUNKS = (
    _LANES,
    _TASKS,
    _CHUNK_ROWS,
    _ATTEMPTS,
    "UPDATE task SET attempts = 1 WHERE state = 'running'",
    "UPDATE task SET state = 'done', ready_at = now(), done_at = now() WHERE kind = 'plan'",
    "UPDATE job SET state = 'running', started_at = now()",
    "UPDATE plate SET facts = '{}', frames = :per_job * 480",
    """UPDATE project SET running = (SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id
       WHERE a.state = 'running' AND j.project_id = project.id)""",
    """UPDATE submitter SET running = (SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id
       WHERE a.state = 'running' AND j.submitter_id = submitter.id)""",
    """INSERT INTO worker (id, name, state) SELECT 'w' || n, 'worker ' || n, 'awake'
       FROM generate_series(0, :workers - 1) n""",
    "INSERT INTO slot (worker_id, number) SELECT id, 0 FROM worker",
    "DELETE FROM outbox",
    """INSERT INTO event (job_id, task_id, attempt_id, worker_id, kind, after, reason)
       SELECT job_id, task_id, id, worker_id, 'attempt.state', state, 'As the bench has it.' FROM attempt""",
)
