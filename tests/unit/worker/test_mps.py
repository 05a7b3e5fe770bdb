"""When the slots of a card share it by NVIDIA's service, with a command that is only written down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from farm.worker.mps import Mps


class _Commands:
    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.said: list[tuple[tuple[str, ...], str]] = []
        self.environments: list[dict[str, str]] = []

    def __call__(self, command: Sequence[str], environment: dict[str, str], given: str) -> int:
        self.said.append((tuple(command), given))
        self.environments.append(environment)
        return self.code


def _there(_: str) -> str | None:
    return "/usr/bin/it"


def test_several_slots_share_a_card_until_their_worker_ends(tmp_path: Path) -> None:
    run = _Commands()
    mps = Mps.start("GPU-1", 2, tmp_path / "pipes", which=_there, run=run)
    assert mps.environment["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path / "pipes")
    assert run.environments[0]["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert mps.environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "10"
    mps.stop()
    assert run.said == [(("nvidia-cuda-mps-control", "-d"), ""), (("nvidia-cuda-mps-control",), "quit\n")]


@pytest.mark.parametrize(
    ("uuid", "slots", "there", "code", "why"),
    [
        ("GPU-1", 1, True, 0, "one slot"), ("MIG-1", 2, True, 0, "MIG"), ("GPU-1", 2, False, 0, "not installed"),
        ("GPU-1", 2, True, 3, "ended with 3"), ("", 2, True, 0, "there is no card"),
    ],
)  # fmt: skip
def test_where_it_is_of_no_use_or_missing_slots_go_without(
    tmp_path: Path, uuid: str, slots: int, there: bool, code: int, why: str
) -> None:
    run = _Commands(code)
    mps = Mps.start(uuid, slots, tmp_path, which=_there if there else lambda _: None, run=run)
    assert mps.environment == {}
    assert why in mps.why
    before = len(run.said)
    mps.stop()
    assert len(run.said) == before


@pytest.mark.parametrize(("slots", "queues"), [(6, "10"), (8, "8"), (20, "3"), (48, "2")])
def test_many_slots_leave_each_other_queues_to_the_card(tmp_path: Path, slots: int, queues: str) -> None:
    mps = Mps.start("GPU-1", slots, tmp_path, which=_there, run=_Commands())
    assert mps.environment["CUDA_DEVICE_MAX_CONNECTIONS"] == queues
