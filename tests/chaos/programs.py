"""`python -m tests.chaos.programs worker|reconciler`: the farm's programs with the points put in."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from farm.worker import __main__ as worker_program
from tests.chaos.instrument import instrument_commits
from tests.chaos.points import points_of_process


def worker() -> int:
    instrument_commits(points_of_process())
    plan = worker_program.plan_workers

    def planned(*arguments: Any, **more: Any) -> list[worker_program.CeleryWorker]:
        return [
            replace(p, argv=tuple("tests.chaos.app" if part == "farm.worker.app" else part for part in p.argv))
            for p in plan(*arguments, **more)
        ]

    worker_program.plan_workers = planned
    return worker_program.main()


def reconciler() -> int:
    from farm.cli.reconciler import reconciler as command

    instrument_commits(points_of_process())
    command(args=[], standalone_mode=False)
    return 0


if __name__ == "__main__":
    sys.exit({"worker": worker, "reconciler": reconciler}[sys.argv[1]]())
