"""When workers are awake: windows of the week, in a time zone, looked at by the database's clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, TypeAdapter, model_validator
from sqlalchemy import Row, String, bindparam, delete, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.orm import Session

from farm.db.tables import Schedule
from farm.errors import InputError, NotFoundError
from farm.jobs import ledger
from farm.jobs.request import Plain

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Clock = Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$|^24:00$")]


class Window(Plain):
    """Awake from `start` to `end` on these days. Where `end` is not after `start` it is on the day that follows."""

    days: tuple[Annotated[str, StringConstraints(pattern="^(" + "|".join(DAYS) + ")$")], ...] = Field(min_length=1)
    start: Clock
    end: Clock

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.start == "24:00" or self.start == self.end:
            raise ValueError("a window starts before 24:00 and does not end when it starts")
        return self

    def holds(self, local: datetime) -> bool:
        """Whether the window is open at a local time of its zone."""
        minute = local.hour * 60 + local.minute
        today, yesterday = DAYS[local.weekday()], DAYS[local.weekday() - 1]
        start, end = _minutes(self.start), _minutes(self.end)
        if start < end:
            return today in self.days and start <= minute < end
        return (today in self.days and minute >= start) or (yesterday in self.days and minute < end)

    def __str__(self) -> str:
        return f"{','.join(self.days)} {self.start}-{self.end}"


_WINDOWS = TypeAdapter(tuple[Window, ...])


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


class ScheduleView(Plain):
    """`target` is "worker:<id>" or "tag:<tag>". No window is open: its workers sleep."""

    target: Annotated[str, StringConstraints(pattern=r"^(worker|tag):[^\s]{1,64}$")]
    zone: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    windows: tuple[Window, ...] = Field(min_length=1, max_length=50)

    @property
    def words(self) -> str:
        return f"{'; '.join(str(window) for window in self.windows)} ({self.zone})"


_KNOWN_ZONE = text("SELECT EXISTS (SELECT 1 FROM pg_timezone_names WHERE name = :zone)")


def set_schedule(session: Session, wanted: ScheduleView, *, actor: str) -> None:
    """Give a worker or a pool its hours. InputError when PostgreSQL does not know the time zone."""
    if not session.scalar(_KNOWN_ZONE, {"zone": wanted.zone}):
        raise InputError(
            f"There is no time zone {wanted.zone!r}.", where="zone", do="Give an IANA name, such as Europe/Berlin."
        )
    row = {"zone": wanted.zone, "windows": [window.model_dump(mode="json") for window in wanted.windows]}
    session.execute(
        insert(Schedule)
        .values(target=wanted.target, **row)
        .on_conflict_do_update(index_elements=[Schedule.target], set_=row)
    )
    ledger.note(session, "worker.schedule", actor=actor, reason=f"{wanted.target} is awake {wanted.words}.")


def clear_schedule(session: Session, target: str, *, actor: str) -> None:
    """Let a worker or a pool be awake at all hours again. NotFoundError when it had no schedule."""
    if session.execute(delete(Schedule).where(Schedule.target == target).returning(Schedule.target)).first() is None:
        raise NotFoundError("It has no schedule.", where=target, do="See `farm workers schedules`.")
    ledger.note(session, "worker.schedule", actor=actor, reason=f"{target} is awake at all hours.")


def schedules(session: Session) -> list[ScheduleView]:
    return [_view(row) for row in session.scalars(select(Schedule).order_by(Schedule.target))]


def _view(row: Schedule | Row[Any]) -> ScheduleView:
    return ScheduleView(target=row.target, zone=row.zone, windows=_WINDOWS.validate_python(row.windows))


_OF_WORKER = text("""
    SELECT target, zone, windows, clock_timestamp() AT TIME ZONE zone AS local
    FROM schedule WHERE target = ANY (:targets)""").bindparams(bindparam("targets", type_=ARRAY(String)))


def off_duty(session: Session, worker_id: str, tags: Sequence[str]) -> str:
    """Why the worker should sleep now, by its own schedule or else by those of all its pools; "" when it should not."""
    targets = [f"worker:{worker_id}", *(f"tag:{tag}" for tag in tags)]
    found = session.execute(_OF_WORKER, {"targets": targets}).all()
    counting = [row for row in found if row.target == targets[0]] or found
    views = []
    for row in counting:
        view = _view(row)
        if any(window.holds(row.local) for window in view.windows):
            return ""
        views.append(view)
    return f"It is outside its schedule: awake {' or '.join(view.words for view in views)}." if views else ""
