"""What projects and their people may use: weights, caps, budgets, and what they have used."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.db.enums import BudgetAction
from farm.db.tables import Project
from farm.jobs import lanes, ledger


class ProjectView(BaseModel):
    """A project's share, cap and budgets, with what runs and what it has used (GPU seconds, and money by rates)."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    name: str
    weight: float
    max_running: int | None
    running: int
    gpu_seconds: float
    money: float
    budget_gpu_seconds: float | None
    budget_money: float | None
    budget_action: str
    budget_state: str


class ProjectChange(BaseModel):
    """What is to become of a project; what is not given stays. A budget of None is taken away.

    `budget_money` is in whatever the rates of the workers are; where both budgets are set, the first that is used up
    counts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float | None = Field(default=None, gt=0, le=1000)
    max_running: int | None = Field(default=None, ge=0)
    budget_gpu_seconds: float | None = Field(default=None, ge=0)
    budget_money: float | None = Field(default=None, ge=0)
    budget_action: BudgetAction | None = None


def projects(session: Session) -> list[ProjectView]:
    return [ProjectView.model_validate(row) for row in session.scalars(select(Project).order_by(Project.name))]


def change_project(session: Session, name: str, change: ProjectChange, *, actor: str) -> ProjectView:
    """Change a project, which is made if there is none yet. The reconciler applies the budget with its next pass."""
    project = session.get_one(Project, lanes.project_id(session, name), with_for_update={"key_share": True})
    given = change.model_dump(include=change.model_fields_set)
    for field, value in given.items():
        if value is not None or field in ("max_running", "budget_gpu_seconds", "budget_money"):
            setattr(project, field, value)
    session.flush()
    words = ", ".join(f"{field} = {value}" for field, value in given.items()) or "nothing"
    ledger.note(session, "project.changed", actor=actor, reason=f"Project {name}: {words}.")
    return ProjectView.model_validate(project)
