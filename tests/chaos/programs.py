"""`python -m tests.chaos.programs worker|reconciler|api`: the farm's programs with the points put in."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from farm.api.__main__ import DESCRIPTOR, gunicorn_argv
from farm.worker import __main__ as worker_program
from tests.chaos.instrument import (
    FLEET,
    RECONCILER,
    instrument_database,
    instrument_store,
    instrument_wakeups,
    shift_clock,
)
from tests.chaos.points import points_of_process


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
    shift_clock(points_of_process(), sys.argv[1])
    sys.exit({"worker": worker, "reconciler": reconciler, "api": api}[sys.argv[1]]())
