"""Whose work it is: projects, the people who submit in them, and their shares, caps and budgets."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from farm.db.base import Base, Id, Made, state_column
from farm.db.enums import BudgetAction, BudgetState


class Project(Base):
    """A tenant. `running` counts its live attempts, kept in the transactions that start and end them.

    What it has used is kept there too: `gpu_seconds`, and `money` by the rates of the workers that it used.
    """

    __tablename__ = "project"
    __table_args__ = (
        CheckConstraint("weight > 0", name="weight"),
        CheckConstraint("running >= 0", name="running"),
        CheckConstraint("max_running >= 0", name="max_running"),
        CheckConstraint("budget_gpu_seconds >= 0", name="budget"),
    )

    id: Mapped[Id]
    name: Mapped[str] = mapped_column(String(200), unique=True)
    weight: Mapped[float] = mapped_column(server_default="1")
    max_running: Mapped[int | None]
    running: Mapped[int] = mapped_column(server_default="0")
    gpu_seconds: Mapped[float] = mapped_column(server_default="0")
    money: Mapped[float] = mapped_column(server_default=text("0"))
    budget_gpu_seconds: Mapped[float | None]
    budget_money: Mapped[float | None]
    budget_action: Mapped[BudgetAction] = state_column(BudgetAction, BudgetAction.STOP)
    budget_state: Mapped[BudgetState] = state_column(BudgetState, BudgetState.OPEN)
    created_at: Mapped[Made]


class Submitter(Base):
    """A person or service inside a project, for fair share and caps by user. `owner` is "" where nobody is named."""

    __tablename__ = "submitter"
    __table_args__ = (
        UniqueConstraint("project_id", "owner"),
        CheckConstraint("weight > 0", name="weight"),
        CheckConstraint("running >= 0", name="running"),
        CheckConstraint("max_running >= 0", name="max_running"),
    )

    id: Mapped[Id]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"))
    owner: Mapped[str] = mapped_column(String(200), server_default="")
    weight: Mapped[float] = mapped_column(server_default="1")
    max_running: Mapped[int | None]
    running: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[Made]
