"""`python -m tests.chaos.programs worker|reconciler|api`: the farm's programs with the points put in.

Where the harness has said that a role's clock is wrong, the program begins again under libfaketime.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from farm.api.__main__ import DESCRIPTOR, gunicorn_argv
from farm.worker import __main__ as worker_program
from tests.chaos.instrument import FLEET, RECONCILER, instrument_database, instrument_store, instrument_wakeups
from tests.chaos.points import points_of_process

_PRELOAD = "LD_PRELOAD"


def libfaketime() -> Path | None:
    """Debian's libfaketime for programs with threads, where it is installed."""
    return next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)


def shift_clock(role: str) -> None:
    """Begin again with a wrong wall clock; the monotonic clock stays right, as it does on a real machine."""
    shift, library = points_of_process().clock(role), libfaketime()
    if not shift or library is None or _PRELOAD in os.environ:
        return
    env = {
        **os.environ,
        _PRELOAD: str(library),
        "FAKETIME": shift,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    os.execve(sys.executable, [sys.executable, "-m", "tests.chaos.programs", role], env)  # noqa: S606  # this process begins again


def worker() -> int:
    instrument_database(points_of_process(), FLEET)
    plan = worker_program.plan_workers

    def planned(*arguments: Any, **more: Any) -> list[worker_program.CeleryWorker]:
        return [
            replace(p, argv=tuple("tests.chaos.app" if part == "farm.worker.app" else part for part in p.argv))
            for p in plan(*arguments, **more)
        ]

    worker_program.plan_workers = planned
    return worker_program.main()


def reconciler() -> int:
    from farm.cli import reconciler as program

    points = points_of_process()
    instrument_database(points, RECONCILER)
    instrument_wakeups(points, RECONCILER)
    instrument_store(points, RECONCILER)
    program.reconciler(args=[], standalone_mode=False)
    return 0


def api() -> int:
    argv = (*gunicorn_argv(int(os.environ[DESCRIPTOR]), 16)[:-1], "tests.chaos.api:create_app()")
    os.execv(argv[0], argv)  # noqa: S606  # this process becomes gunicorn


if __name__ == "__main__":
    shift_clock(sys.argv[1])
    sys.exit({"worker": worker, "reconciler": reconciler, "api": api}[sys.argv[1]]())
