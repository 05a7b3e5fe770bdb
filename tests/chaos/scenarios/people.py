"""People who want something at the worst moment: cancel, pause, requeue, several at once, and a model that is gone."""

from __future__ import annotations

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from farm import jobs
from farm.db.engine import transact
from farm.errors import ConflictError
from farm.store import keys
from tests.chaos.farm import MODEL, MODELS
from tests.chaos.harness import LEASE, UPSCALE, ChaosError, ChaosFarm
from tests.chaos.instrument import STORE
from tests.chaos.points import Fault, Rate
from tests.chaos.scenario import Run, Scenario, some_chunks

KIND = "people"


def cancelled(point: str) -> Run:
    """A cancel that races with the end of the job, or comes while a slot works."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault("stop"))
        job = farm.submit(some_chunks(dice))
        pid = farm.met(point)
        transact(farm.sessions, lambda s: jobs.cancel(s, job, actor="chaos"))
        farm.signal([pid], signal.SIGCONT)
        return _cancelled_or_whole(farm, job)

    return run


def cancelled_at_any_moment(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit(some_chunks(dice))
    farm.wait("the merge or the end", lambda: farm.running(job, "merge") or farm.is_final(job))
    time.sleep(1.5 * dice.random())
    try:
        farm.client.command(job, "cancel")
    except ConflictError:
        farm.completed(job)
    return _cancelled_or_whole(farm, job)


def _cancelled_or_whole(farm: ChaosFarm, job: str) -> list[str]:
    state = farm.ended(job)
    if state == "completed":
        farm.completed(job)
    elif state != "cancelled":
        raise ChaosError(f"the cancelled job is {state}")
    return [job]


def paused(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit(some_chunks(dice))
    farm.wait_running(job)
    time.sleep(dice.random())
    return _pause_and_resume(farm, job)


def _pause_and_resume(farm: ChaosFarm, job: str) -> list[str]:
    try:
        farm.client.command(job, "pause")
    except ConflictError:  # it was faster
        farm.completed(job)
        return [job]
    farm.points.disarm()
    farm.wait("the pause or the end", lambda: farm.state(job) == "paused" or farm.is_final(job))
    if farm.is_final(job):  # its last task was done before it heard of the pause
        farm.completed(job)
        return [job]
    if farm.running_any(job):
        raise ChaosError("a paused job has a running attempt")
    farm.client.command(job, "resume")
    farm.completed(job)
    return [job]


def paused_while_dying(point: str) -> Run:
    """The pause waits for an attempt whose process dies instead of handing its task back."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault("stop"))
        job = farm.submit(some_chunks(dice))
        pid = farm.met(point)
        farm.client.command(job, "pause")
        farm.signal([pid], signal.SIGKILL)
        farm.wait("the pause", lambda: farm.state(job) == "paused")
        farm.client.command(job, "resume")
        farm.completed(job)
        return [job]

    return run


def paused_while_failing(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A pause among attempts that fail."""
    farm.points.set_rate(STORE, Rate(0.1, dice.randrange(1 << 30)))
    job = farm.submit(some_chunks(dice))
    farm.wait_running(job)
    time.sleep(dice.random())
    return _pause_and_resume(farm, job)


def requeued_while_running(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A chunk is asked for again while a slot is at work on it: the frozen slot's late result must not count."""
    farm.points.arm("after-upload", Fault("stop", dice.randrange(2)))
    job = farm.submit(some_chunks(dice))
    pid = farm.met("after-upload")
    for what in (0, 1):
        transact(farm.sessions, lambda s, what=what: jobs.requeue(s, job, actor="chaos", what=what))  # type: ignore[misc]
    farm.signal([pid], signal.SIGCONT)
    farm.completed(job)
    return [job]


def begun_again_while_running(point: str) -> Run:
    """The whole job is asked for again while a slot is at work on it."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault("stop"))
        job = farm.submit(some_chunks(dice))
        pid = farm.met(point)
        transact(farm.sessions, lambda s: jobs.requeue(s, job, actor="chaos", what="job"))
        farm.signal([pid], signal.SIGCONT)
        farm.completed(job)
        return [job]

    return run


def requeued_when_completed(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit(some_chunks(dice))
    farm.completed(job)
    for what in (1, "job"):
        transact(farm.sessions, lambda s, what=what: jobs.requeue(s, job, actor="chaos", what=what))  # type: ignore[misc]
        if farm.is_final(job):
            raise ChaosError("a requeued job is still final")
        farm.completed(job)
    return [job]


def deleted_while_running(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Somebody deletes what a running job lives on: it fails and says what is gone, and can be begun again."""
    farm.points.arm("after-claim", Fault("stop"))
    job = farm.submit(some_chunks(dice))
    pid = farm.met("after-claim")
    farm.store.delete_prefix(keys.segments(job))
    farm.signal([pid], signal.SIGCONT)
    state, reason = farm.ended(job), farm.client.job(job).reason
    if state != "failed" or "does not exist" not in reason:
        raise ChaosError(f"without its segments the job is {state}: {reason}")
    transact(farm.sessions, lambda s: jobs.requeue(s, job, actor="chaos", what="job"))
    farm.completed(job)
    return [job]


def deleted_by_command(point: str) -> Run:
    """Somebody deletes the job while a process is at work on it: nothing of it is left, whatever that still does."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault("stop"))
        job = farm.submit(some_chunks(dice))
        pid = farm.met(point)
        farm.client.operate("DELETE", f"/jobs/{job}", {"reason": "chaos"})
        time.sleep(2 * LEASE * dice.random())
        farm.signal([pid], signal.SIGCONT)
        farm.wait("the end of the job's row", lambda: farm.state(job) == "None")
        return []

    return run


def model_missing(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A slot's model is taken away under it: the job fails and says which; put back, it is requeued and ends well."""
    frames = farm.undisturbed(UPSCALE)
    before = set(farm.slots())
    farm.signal(sorted(before), signal.SIGKILL)  # they have it in memory
    farm.wait("new slots", lambda: set(farm.slots()) - before)
    farm.points.arm("after-claim", Fault("stop"))
    job = farm.submit_with_models(UPSCALE)
    pid = farm.met("after-claim")
    weights = next((farm.local.home.path / "models" / "weights").iterdir())
    hidden = weights.rename(weights.with_suffix(".hidden"))
    try:
        farm.signal([pid], signal.SIGCONT)
        state, reason = farm.ended(job), farm.client.job(job).reason
    finally:
        hidden.rename(weights)
    if state != "failed" or MODEL not in reason or "farm models pull" not in reason:
        raise ChaosError(f"without its model the job is {state}: {reason}")
    farm.client.command(job, "requeue")
    farm.completed(job, frames)
    return [job]


def two_users(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Two people tell one job contrary things, as fast as they can; then one of them lets it go on."""
    job = farm.submit(some_chunks(dice))
    farm.wait_running(job)
    seeds = [dice.randrange(1 << 30) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for heard in [pool.submit(_meddle, farm, job, seed) for seed in seeds]:
            heard.result()
    if farm.state(job) in ("pausing", "paused"):
        farm.client.command(job, "resume")
    farm.completed(job)
    return [job]


def _meddle(farm: ChaosFarm, job: str, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(8):
        command = dice.choice(["pause", "resume", "pause", "resume", "requeue", "chunk", "priority"])
        try:
            if command == "chunk":
                transact(farm.sessions, lambda s: jobs.requeue(s, job, actor="chaos", what=0))
            elif command == "priority":
                wanted = partial(jobs.set_priority, job_id=job, priority=dice.randrange(101), actor="chaos")
                transact(farm.sessions, wanted)
            else:
                with farm.other_client() as client:
                    client.command(job, command)
        except ConflictError:
            continue  # the other one was faster
        finally:
            time.sleep(0.2 * dice.random())


_PLAIN = tuple(
    Scenario(name, KIND, run)
    for name, run in (
        *(
            (f"cancel at {point}", cancelled(point))
            for point in (
                "after-claim",
                "mid-frame",
                "after-upload",
                "after-commit",
                "merge-after-claim",
                "merge-after-upload",
            )
        ),
        ("cancel against completion", cancelled_at_any_moment),
        ("pause and resume", paused),
        *(
            (f"pause while dying at {point}", paused_while_dying(point))
            for point in ("mid-frame", "after-upload", "merge-after-claim")
        ),
        ("pause against failure", paused_while_failing),
        ("requeue while running", requeued_while_running),
        *(
            (f"begin again at {point}", begun_again_while_running(point))
            for point in ("mid-frame", "merge-after-upload")
        ),
        ("requeue when completed", requeued_when_completed),
        ("two users on one job", two_users),
        ("delete while running", deleted_while_running),
    )
)
_DELETED_AT = ("after-claim", "mid-frame", "after-upload", "after-commit", "merge-after-upload")

SCENARIOS = (
    *_PLAIN,
    *(Scenario(f"deleted at {point}", KIND, deleted_by_command(point)) for point in _DELETED_AT),
    Scenario("model missing", KIND, model_missing, frozenset({MODELS})),
)
