"""Workers' keys, hours and states, on a real database by its own clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from farm.api.app import create_app
from farm.api.operations import Operations
from farm.api.services import Services
from farm.db.engine import Sessions, transact
from farm.db.enums import RequestedState, WorkerState
from farm.db.tables import Worker, WorkerKey
from farm.errors import PolicyError
from farm.jobs import Slot, fleet, worker_keys
from farm.jobs.policy import DEFAULT
from farm.jobs.schedules import DAYS
from farm.settings import Settings
from farm.worker.__main__ import Running, plan_workers
from farm.worker.calls import Calls
from tests.integration.jobs.hands import Hands
from tests.integration.operations.conftest import Ask


def register(sessions: Sessions, secret: str | None = None, worker: str = "w1", tags: tuple[str, ...] = ()) -> None:
    report = fleet.WorkerReport(id=worker, name=worker, tags=tags, slots=(Slot(worker_id=worker),))
    transact(sessions, lambda s: fleet.register(s, report, secret=secret))


def beat(sessions: Sessions, worker: str = "w1") -> fleet.Wish:
    return transact(sessions, lambda s: fleet.beat(s, worker))


def state(sessions: Sessions, worker: str = "w1") -> tuple[WorkerState, str]:
    with sessions() as session:
        row = session.get_one(Worker, worker)
        return row.state, row.reason


def test_a_farm_without_keys_takes_every_worker(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    assert api("GET", "/worker-keys")["items"] == []


def test_from_the_first_key_on_a_worker_needs_one(sessions: Sessions, api: Ask) -> None:
    made = api("POST", "/worker-keys", {"name": "pool-a"}, status=201)
    for wrong in (None, "", "guess", made["secret"] + "x"):
        with pytest.raises(PolicyError, match="registered workers only"):
            register(sessions, wrong)
    register(sessions, made["secret"])
    (key,) = api("GET", "/worker-keys")["items"]
    assert key["used_at"] is not None
    assert "secret" not in key
    with sessions() as session:
        assert made["secret"] not in [row.digest for row in session.query(WorkerKey)]
    api("POST", "/worker-keys", {"name": "pool-a"}, status=409)
    api("POST", "/worker-keys", {"name": "../a"}, status=422)


def test_a_workers_own_key_is_no_other_workers(sessions: Sessions, api: Ask) -> None:
    secret = api("POST", "/worker-keys", {"name": "one", "worker_id": "w1"}, status=201)["secret"]
    register(sessions, secret, "w1")
    with pytest.raises(PolicyError):
        register(sessions, secret, "w2")


def test_a_revoked_key_stops_its_workers_at_once_and_for_good(sessions: Sessions, api: Ask) -> None:
    secret = api("POST", "/worker-keys", {"name": "pool"}, status=201)["secret"]
    register(sessions, secret)
    hands = Hands(sessions)
    hands.submit()
    hands.submit()
    claim = hands.must_claim()
    assert api("DELETE", "/worker-keys/pool") == {"count": 1}
    assert hands.claim() is None
    assert hands.beat(claim).reason == "draining"
    assert beat(sessions).requested is RequestedState.OFFLINE
    with pytest.raises(PolicyError):
        register(sessions, secret)
    with pytest.raises(PolicyError):
        register(sessions, None)
    api("DELETE", "/worker-keys/pool", status=404)


def test_a_deployments_own_workers_stay_when_it_makes_its_first_key(sessions: Sessions, services: Services) -> None:
    own = Operations(sessions, DEFAULT, own_worker_secret="of the deployment")
    app: Flask = create_app(services=services)
    app.extensions["farm_operations"] = own
    assert app.test_client().post("/api/v1/worker-keys", json={"name": "guests"}).status_code == 201
    register(sessions, "of the deployment")
    with sessions() as session:
        assert {key.name for key in worker_keys.keys(session)} == {"guests", "this-deployment"}


def test_the_worker_program_starts_nothing_where_it_is_refused(sessions: Sessions, api: Ask, tmp_path: Path) -> None:
    api("POST", "/worker-keys", {"name": "pool"}, status=201)
    settings = Settings(worker_name="w1", worker_secret="wrong")  # type: ignore[arg-type]
    (plan,) = plan_workers(settings, [], host="host", cores=1)
    with pytest.raises(PolicyError, match="FARM_WORKER_SECRET"):
        Running(plan, sessions, settings, Calls(tmp_path))


def local_now(sessions: Sessions, zone: str) -> datetime:
    with sessions() as session:
        found: datetime = session.execute(text("SELECT clock_timestamp() AT TIME ZONE :z"), {"z": zone}).scalar_one()
        return found


def hours(sessions: Sessions, zone: str, *, open_: bool) -> list[dict[str, Any]]:
    """A window of the whole day that is, or is not, today's; an hour away from midnight either neighbour counts."""
    now = local_now(sessions, zone)
    near = {DAYS[(now + timedelta(hours=h)).weekday()] for h in (-1, 0, 1)}
    days = sorted(near if open_ else set(DAYS) - near)
    return [{"days": days, "start": "00:00", "end": "24:00"}]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_a_worker_sleeps_outside_its_hours_and_wakes_in_them(sessions: Sessions, api: Ask, zone: str) -> None:
    register(sessions)
    closed = {"target": "worker:w1", "zone": zone, "windows": hours(sessions, zone, open_=False)}
    api("POST", "/schedules", closed)
    beat(sessions)
    now, why = state(sessions)
    assert now is WorkerState.ASLEEP
    assert "outside its schedule" in why
    assert zone in why
    hands = Hands(sessions)
    hands.submit()
    assert hands.claim() is None
    assert "outside its schedule" in api("GET", "/workers/w1/why")["why"]
    api("POST", "/schedules", closed | {"windows": hours(sessions, zone, open_=True)})
    beat(sessions)
    assert state(sessions)[0] is WorkerState.AWAKE
    assert hands.claim() is not None


def test_a_worker_ends_its_tasks_before_it_sleeps(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    hands = Hands(sessions)
    hands.submit()
    claim = hands.must_claim()
    api("POST", "/schedules", {"target": "worker:w1", "zone": "UTC", "windows": hours(sessions, "UTC", open_=False)})
    beat(sessions)
    assert state(sessions)[0] is WorkerState.DRAINING
    assert hands.beat(claim).alive
    hands.publish(claim, 0)
    hands.finish(claim, chunks=1)
    beat(sessions)
    assert state(sessions)[0] is WorkerState.ASLEEP


def test_a_workers_own_hours_go_before_its_pools_and_an_operator_before_both(sessions: Sessions, api: Ask) -> None:
    register(sessions, tags=("night",))
    closed, opened = (hours(sessions, "UTC", open_=o) for o in (False, True))
    api("POST", "/schedules", {"target": "tag:night", "zone": "UTC", "windows": closed})
    beat(sessions)
    assert state(sessions)[0] is WorkerState.ASLEEP
    api("POST", "/schedules", {"target": "worker:w1", "zone": "UTC", "windows": opened})
    beat(sessions)
    assert state(sessions)[0] is WorkerState.AWAKE
    api("DELETE", "/schedules/worker:w1")
    beat(sessions)
    assert state(sessions)[0] is WorkerState.ASLEEP
    api("POST", "/workers/w1/state", {"state": "awake"})
    for _ in range(2):
        beat(sessions)
        assert state(sessions)[0] is WorkerState.AWAKE
    api("DELETE", "/schedules/tag:night")
    beat(sessions)
    assert api("GET", "/workers")["items"][0]["requested"] is None
    api("DELETE", "/schedules/tag:night", status=404)


def test_a_schedule_in_no_time_zone_is_refused(api: Ask) -> None:
    windows = [{"days": ["mon"], "start": "09:00", "end": "17:00"}]
    api("POST", "/schedules", {"target": "tag:x", "zone": "Mars/Base", "windows": windows}, status=422)
    api("POST", "/schedules", {"target": "everybody", "zone": "UTC", "windows": windows}, status=422)
    assert api("GET", "/schedules")["items"] == []


def test_what_a_worker_is_stands_beside_what_is_wanted(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    hands = Hands(sessions)
    hands.submit()
    claim = hands.must_claim()
    api("POST", "/workers/w1/state", {"state": "asleep"})
    beat(sessions)
    (worker,) = api("GET", "/workers")["items"]
    assert (worker["state"], worker["requested"]) == ("draining", "asleep")
    hands.publish(claim, 0)
    hands.finish(claim, chunks=1)
    beat(sessions)
    (worker,) = api("GET", "/workers")["items"]
    assert (worker["state"], worker["requested"]) == ("asleep", "asleep")
    api("POST", "/workers/w1/state", {"state": "restart"})
    beat(sessions)
    (worker,) = api("GET", "/workers")["items"]
    assert (worker["state"], worker["requested"]) == ("draining", "restart")
    register(sessions)
    (worker,) = api("GET", "/workers")["items"]
    assert (worker["state"], worker["requested"]) == ("awake", None)
