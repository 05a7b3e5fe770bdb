"""How soon those at work hear of a command while 10,000 tasks run, each of which reports every 20 s."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sqlalchemy import text

from bench.common import Goal, at_most, noted
from bench.farm_fill import open_farm
from farm import jobs
from farm.db.engine import Sessions, make_engine, transact
from farm.errors import FarmError
from farm.worker.calls import Calls, Ear, Listener
from farm.worker.heartbeat import Beat, Heartbeat

MACHINES, COMMANDS = 50, 20

_RUNNING = text("""
    SELECT DISTINCT ON (job_id) id, job_id, task_id, worker_id, lease_token, lease_until
    FROM attempt WHERE state = 'running' ORDER BY job_id LIMIT :most""")


def commands(url: str) -> dict[str, Goal]:
    """Cancel jobs, one after the other, each of which has a slot at work on one of 50 machines that listen."""
    sessions, taken = open_farm(url), list[float]()
    running = transact(sessions, lambda session: session.execute(_RUNNING, {"most": COMMANDS}).all())
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(MACHINES)]
        enders = stack.enter_context(ThreadPoolExecutor(MACHINES))
        machines = [Calls(folder) for folder in folders]
        for machine in machines:
            listener = Listener(make_engine(url, application="facefarm-bench", pool_size=1), machine.mark)
            listener.start()
            stack.callback(enders.submit, listener.stop)
            if not listener.listening.wait(30):
                raise RuntimeError("a machine does not hear the database")
        for number, row in enumerate(running):
            lease = jobs.Lease(token=row.lease_token, job_id=row.job_id, task_id=row.task_id, attempt_id=row.id,
                               until=row.lease_until, seconds=80, heartbeat_seconds=20)  # fmt: skip
            ear = Ear(machines[number % MACHINES], row.job_id, row.worker_id)
            with Heartbeat(_beat(sessions, lease), 20, called=ear) as beating:
                begun = time.perf_counter()
                transact(sessions, partial(jobs.cancel, job_id=row.job_id, actor="bench"))
                while _goes_on(beating):
                    time.sleep(0.005)
                taken.append(time.perf_counter() - begun)
    why = f"{COMMANDS} cancels, {MACHINES} listening machines, 10,000 running tasks that report every 20 s"
    return {
        "command_heard_max_seconds": at_most(max(taken), 2, why),
        "command_heard_mean_seconds": noted(sum(taken) / len(taken), "of the same"),
    }


def _beat(sessions: Sessions, lease: jobs.Lease) -> Callable[[Beat], jobs.HeartbeatAnswer]:
    return lambda report: jobs.heartbeat(sessions, lease, jobs.Progress(frames_done=report.done))


def _goes_on(beating: Heartbeat) -> bool:
    try:
        beating.check()
    except FarmError:
        return False
    return True
