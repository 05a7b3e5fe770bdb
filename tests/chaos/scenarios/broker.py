"""Messages that get lost, come twice or come late, and a broker that forgets or hangs up."""

from __future__ import annotations

import random
import signal
import time

from farm.db.enums import OutboxTopic
from farm.jobs.reconcile import Message
from farm.wakeups import Wakeups
from tests.chaos.farm import RABBITMQ, VALKEY
from tests.chaos.harness import ChaosFarm
from tests.chaos.instrument import DELAYED, DOUBLED, LOST, WAKE
from tests.chaos.points import AFTER, Rate
from tests.chaos.scenario import Run, Scenario, some_chunks

KIND = "broker"
HURT_SECONDS = 6.0


def wakes(fate: str, share: float) -> Run:
    """Wake-ups meet a fate on their way, for some seconds from the submission on."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.set_rate(WAKE, Rate(share, dice.randrange(1 << 30), only=AFTER, calls=fate))
        job = farm.submit(some_chunks(dice))
        until = time.monotonic() + HURT_SECONDS
        farm.wait("the end or the time", lambda: farm.is_final(job) or time.monotonic() > until)
        farm.points.set_rate(WAKE, None)
        farm.completed(job)
        return [job]

    return run


def flushed(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Every wake-up is lost, several times."""
    job = farm.submit(some_chunks(dice))
    for _ in range(5):
        farm.broker.flushall()
        time.sleep(0.2 * dice.random())
    farm.completed(job)
    return [job]


def clients_killed(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit(some_chunks(dice))
    for _ in range(20):
        farm.broker.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.1 * dice.random())
    farm.completed(job)
    later = farm.submit()
    farm.completed(later)
    return [job, later]


def rabbitmq_restarted(how: signal.Signals) -> Run:
    """RabbitMQ dies while a job runs, and is started again a little later."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        assert farm.rabbitmq is not None
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        farm.rabbitmq.end(how)
        time.sleep(3 * dice.random())
        farm.rabbitmq.start()
        farm.completed(job)
        later = farm.submit()
        farm.completed(later)
        return [job, later]

    return run


def many_wakes(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Many more wake-ups than work."""
    wakeups = Wakeups(farm.broker_url)
    job = farm.submit(some_chunks(dice))
    for _ in range(5):
        wakeups(Message(OutboxTopic.WAKE, {"count": 20}))
    wakeups.close()
    farm.completed(job)
    return [job]


SCENARIOS = (
    Scenario("wake-ups lost", KIND, wakes(LOST, 1.0)),
    Scenario("some wake-ups lost", KIND, wakes(LOST, 0.5)),
    Scenario("wake-ups doubled", KIND, wakes(DOUBLED, 1.0)),
    Scenario("wake-ups delayed", KIND, wakes(DELAYED, 1.0)),
    Scenario("more wake-ups than work", KIND, many_wakes),
    Scenario("RabbitMQ killed", KIND, rabbitmq_restarted(signal.SIGKILL), frozenset({RABBITMQ})),
    Scenario("RabbitMQ restarted", KIND, rabbitmq_restarted(signal.SIGTERM), frozenset({RABBITMQ})),
    Scenario("broker flushed", KIND, flushed, frozenset({VALKEY})),
    Scenario("broker's clients killed", KIND, clients_killed, frozenset({VALKEY})),
)
