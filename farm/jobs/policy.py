"""The numbers by which the control plane decides; a deployment may change each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

from farm.settings import Settings


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds are the database's.

    Attributes
    ----------
    lease_seconds: an attempt that is silent for so long is lost.
    heartbeat_seconds: how often an attempt reports, and so how soon it hears of a cancel.
    heartbeats_per_second: all workers together; with more of them each reports less often.
    stop_seconds: an attempt that was told to stop has so long to hand its task back before it is taken from it.
    lost_limit: a task on which so many workers died is not given to another one.
    shrink_limit: how often a task may run out of memory, with half the batch each time.
    hand_back_limit: how often a task may be handed back; only a loop reaches it.
    delay_limit: how often infrastructure may spoil a task; the pauses are backoff_seconds, doubled, to backoff_most.
    block_after: a worker that failed so many tasks of one job and kind gets no more of them.
    failed_share: a job fails at once when so many of its chunks have failed.
    wake_again_seconds: a ready task that nobody claimed for so long is announced again.
    worker_beats_per_second: how often all workers together say that they live; the more there are, the less often each
        does, and the later it hears what an operator wants of it.
    worker_silent_seconds: a worker that was silent for so long, and for three of its reports, is offline.
    stuck_seconds: an attempt that beats but says nothing new for so long is given up as if it were silent.
    garbage_seconds: what a given-up attempt stored is removed so long after its end; it may still be writing.
    hook_seconds: pause after the first failed delivery to a webhook, doubled each time up to hook_most.
    hook_limit: a delivery that failed so often is given up; it can be replayed.
    batch: rows that a reconciler service handles in one pass.
    """

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 2.0
    heartbeats_per_second: float = 500.0
    stop_seconds: float = 10.0
    lost_limit: int = 3
    shrink_limit: int = 6
    hand_back_limit: int = 100
    delay_limit: int = 12
    backoff_seconds: float = 2.0
    backoff_most: float = 300.0
    block_after: int = 3
    failed_share: float = 0.1
    wake_again_seconds: float = 10.0
    worker_beats_per_second: float = 500.0
    worker_silent_seconds: float = 60.0
    stuck_seconds: float = 900.0
    garbage_seconds: float = 600.0
    hook_seconds: float = 10.0
    hook_most: float = 3600.0
    hook_limit: int = 12
    batch: int = 500


DEFAULT = Policy()


def policy_of(settings: Settings) -> Policy:
    """The numbers that a deployment has set, the others as they are by default."""
    return Policy(
        lease_seconds=settings.lease_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        heartbeats_per_second=settings.heartbeats_per_second,
    )


@lru_cache(maxsize=8)
def policy_json(policy: Policy) -> str:
    """What the database's functions ask of it."""
    return json.dumps(
        {
            "lease": policy.lease_seconds,
            "heartbeat": policy.heartbeat_seconds,
            "per_second": policy.heartbeats_per_second,
            "stop": policy.stop_seconds,
            "workers": policy.worker_beats_per_second,
        }
    )
