"""A deployment's own numbers reach the control plane."""

from __future__ import annotations

from farm.jobs.policy import DEFAULT, policy_of
from farm.settings import Settings


def test_what_is_set_is_used_and_the_rest_stays() -> None:
    policy = policy_of(Settings(lease_seconds=60, heartbeat_seconds=3, heartbeats_per_second=500))
    assert (policy.lease_seconds, policy.heartbeat_seconds, policy.heartbeats_per_second) == (60, 3, 500)
    assert policy.stuck_seconds == DEFAULT.stuck_seconds
