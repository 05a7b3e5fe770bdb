"""Watches what projects may use: warns, stops new work, or cancels, when a budget is used up."""

from __future__ import annotations

from functools import partial

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, transact
from farm.db.enums import BudgetAction, BudgetState
from farm.db.tables import Job, Project
from farm.errors import ConflictError
from farm.jobs import ledger
from farm.jobs.commands import cancel
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import FINAL_JOB_STATES

_REACHED = {
    BudgetAction.WARN: BudgetState.WARNED,
    BudgetAction.STOP: BudgetState.STOPPED,
    BudgetAction.CANCEL: BudgetState.STOPPED,
}


def _used(project: Project) -> str:
    """What was used of each budget that is set, or of none that is left."""
    parts = []
    if project.budget_gpu_seconds is not None:
        parts.append(f"{project.gpu_seconds:.0f} of {project.budget_gpu_seconds:.0f} GPU seconds")
    if project.budget_money is not None:
        parts.append(f"{project.money:.2f} of {project.budget_money:.2f} in money")
    return " and ".join(parts) or f"{project.gpu_seconds:.0f} GPU seconds; it has no budget any more"


class BudgetKeeper:
    """Moves projects to what their budget asks for, and back when it was raised or taken away.

    Attempts that run may end: the overrun is at most what is running. CANCEL cancels the project's open jobs as well.
    """

    name = "budgets"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        changed = transact(self._sessions, self._judge)
        return changed + sum(transact(self._sessions, partial(self._cancel, job)) for job in self._to_cancel())

    def _judge(self, session: Session) -> int:
        used_up = func.coalesce(
            or_(Project.gpu_seconds >= Project.budget_gpu_seconds, Project.money >= Project.budget_money), False
        )
        wrong = used_up == (Project.budget_state == BudgetState.OPEN)
        projects = session.scalars(select(Project).where(wrong).with_for_update(skip_locked=True, key_share=True)).all()
        for project in projects:
            before = project.budget_state
            over = before is BudgetState.OPEN
            project.budget_state = _REACHED[project.budget_action] if over else BudgetState.OPEN
            reason = f"Project {project.name} has used {_used(project)}."
            ledger.note(session, "project.budget", before=before, after=project.budget_state, reason=reason)
        return len(projects)

    def _to_cancel(self) -> list[str]:
        wanted = (
            select(Job.id)
            .join(Project, Project.id == Job.project_id)
            .where(
                Project.budget_action == BudgetAction.CANCEL,
                Project.budget_state == BudgetState.STOPPED,
                Job.state.not_in((*FINAL_JOB_STATES, "cancelling")),
            )
            .limit(self._policy.batch)
        )
        return transact(self._sessions, lambda session: list(session.scalars(wanted)))

    def _cancel(self, job_id: str, session: Session) -> int:
        try:
            cancel(session, job_id, actor="budget", reason="The project's budget is used up.")
        except ConflictError:
            return 0  # it has ended in between
        return 1
