"""The load of a large farm: client processes that claim, finish and beat through what a worker calls."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import statistics
import threading
import time
from contextlib import suppress
from typing import Any

import psutil
from sqlalchemy import text

from bench.common import Goal, at_least, at_most, noted
from bench.farm_fill import Size, open_farm, rendered
from farm import jobs
from farm.jobs import TaskKind
from farm.worker.control import Control

Goals = dict[str, Goal]
Timed = tuple[list[float], float]
"""Of one client process: the seconds that each call took, and its processor seconds."""

PAIRS = 4
LINES = 2
HELD = 50


def claim_and_finish(url: str, seconds: float, seed: int, results: multiprocessing.Queue[Timed]) -> None:
    """A client process: as many pairs as it can.

    Each of its slots in turn ends the chunk that it holds and gets the next one with the same commit, as in a worker.
    """
    sessions, dice, taken = open_farm(url), random.Random(seed), []  # noqa: S311
    control = Control(sessions, jobs.Policy())
    slots = [jobs.Slot(worker_id=f"w{dice.randrange(10_000)}", kinds=(TaskKind.RENDER,)) for _ in range(HELD)]
    held = [(slot, claim) for slot in slots if (claim := control.claim(slot)) is not None]
    spent, end = time.process_time(), time.monotonic() + seconds
    while held and time.monotonic() < end:
        slot, claim = held.pop(0)
        begun = time.perf_counter()
        control.finish(claim.lease, rendered(480), slot)
        following = control.claim(slot)
        taken.append(time.perf_counter() - begun)
        if following is not None:
            held.append((slot, following))
    results.put((taken, time.process_time() - spent))


def beat(url: str, seconds: float, rate: float, results: multiprocessing.Queue[Timed], carried: Any) -> None:
    """A client process: reports of the running attempts in turn, `rate` a second, each for its worker too.

    So it is where every worker has one slot, which is at work: the slot reports as often as its worker is to be heard
    of (`farm.worker.relay`). By so many connections at once as need be (`LINES` at most): one that waits for its answer
    keeps no other from reporting. carried: counts the reports by which the database took the worker to live.
    """
    sessions = open_farm(url, LINES)
    with sessions() as session:
        leases = [
            jobs.Lease(token=r.lease_token, job_id=r.job_id, task_id=r.task_id, attempt_id=r.id, until=r.lease_until,
                       seconds=60, heartbeat_seconds=20)
            for r in session.execute(text("SELECT * FROM attempt WHERE state = 'running'"))
        ]  # fmt: skip
    control, taken, numbers = Control(sessions, jobs.Policy()), list[float](), itertools.count()
    spent, begun = time.process_time(), time.monotonic()

    def line() -> None:
        while (due := begun + (number := next(numbers)) / rate) < begun + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() >= begun + seconds:
                return
            at = time.perf_counter()
            answer = control.heartbeat(leases[number % len(leases)], jobs.Progress(frames_done=number), carries=True)
            taken.append(time.perf_counter() - at)
            if answer.carried_seconds is not None:
                with carried.get_lock():
                    carried.value += 1

    threads = [threading.Thread(target=line) for _ in range(LINES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((taken, time.process_time() - spent))


def throughput(url: str, size: Size, seconds: float) -> Goals:
    """Pairs a second and the slowest claims, while 10,000 workers and what they render are heard of every 20 s."""
    context = multiprocessing.get_context("spawn")
    pairs, beats = context.Queue(), context.Queue()
    carried = context.Value("i", 0)
    rate = size.workers / 20
    clients = [context.Process(target=claim_and_finish, args=(url, seconds, n, pairs)) for n in range(PAIRS)]
    clients.append(context.Process(target=beat, args=(url, seconds, rate, beats, carried)))
    server = _ServerTime(url)
    for process in clients:
        process.start()
    done = [pairs.get() for _ in range(PAIRS)]
    taken = sorted(second for seconds_, _ in done for second in seconds_)
    beaten, beat_spent = beats.get()
    served = server.spent()
    for process in clients:
        process.join()
    spent = sum(s for _, s in done) + beat_spent + served
    return {
        "pairs_per_second": at_least(len(taken) / seconds, 500, f"{size.chunks} chunks, {PAIRS} client processes"),
        "claim_p50_ms": noted(1e3 * statistics.median(taken), "of the same: a finish and a claim with one commit"),
        "claim_p99_ms": at_most(1e3 * taken[int(len(taken) * 0.99)], 50, "a finish and a claim with one commit"),
        "heartbeats_per_second": noted(len(beaten) / seconds, f"wanted: {rate:.0f}"),
        "heartbeat_p99_ms": noted(1e3 * sorted(beaten)[int(len(beaten) * 0.99)], "of the same heartbeats"),
        "worker_beats_per_second": noted(
            carried.value / seconds, f"wanted: {rate:.0f}; each by the report of its worker's slot"
        ),
        "processor_ms_per_pair": noted(
            1e3 * spent / len(taken), "clients and server, heartbeats and workers' beats included"
        ),
        "server_ms_per_pair": noted(1e3 * served / len(taken), "PostgreSQL's part of that"),
    }


class _ServerTime:
    """Processor seconds of the PostgreSQL server at `url`, which runs on this machine, those of ended sessions too."""

    def __init__(self, url: str) -> None:
        with open_farm(url)() as session:
            backend = psutil.Process(session.execute(text("SELECT pg_backend_pid()")).scalar_one())
        server = backend.parent()
        if server is None:
            raise RuntimeError("the server ended")
        self._server = server
        self._before = self._now()

    def spent(self) -> float:
        return self._now() - self._before

    def _now(self) -> float:
        live = []
        for process in self._server.children():
            with suppress(psutil.NoSuchProcess):  # its client has gone: its time is in the server's own account
                live.append(process.cpu_times())
        own = self._server.cpu_times()
        return own.children_user + own.children_system + sum(t.user + t.system for t in (own, *live))
