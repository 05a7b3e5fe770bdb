"""The four kinds of task, each a function from a TaskContext to the result that the control plane accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from farm.jobs.states import TaskKind
from farm.jobs.wire import Result
from farm.worker.task import TaskContext
from farm.worker.tasks.cast import cast
from farm.worker.tasks.merge import merge
from farm.worker.tasks.plan import plan
from farm.worker.tasks.render import render

TASKS: Mapping[TaskKind, Callable[[TaskContext], Result]] = {
    TaskKind.PLAN: plan,
    TaskKind.CAST: cast,
    TaskKind.RENDER: render,
    TaskKind.MERGE: merge,
}


def run_task(context: TaskContext) -> Result:
    """Run the task that was claimed. Errors: the farm's own, and whatever a library raises."""
    return TASKS[context.claim.kind](context)
