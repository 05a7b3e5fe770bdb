"""NVIDIA's Multi-Process Service: lets the slots of one card run at the same time instead of in turns."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

_CONTROL = "nvidia-cuda-mps-control"
_SECONDS = 20
_CONNECTIONS, _ALL_CONNECTIONS = 10, 64
"""Queues to the card: a slot has eight streams, and two that share a queue wait for each other. All clients
of the service have theirs from one pool, so that those of many slots are fewer."""

Run = Callable[[Sequence[str], dict[str, str], str], int]
"""Runs a command with more environment and this input; its exit status."""


class Mps:
    """The service of one card, for as long as its worker runs. `why` says why there is none."""

    def __init__(self, environment: dict[str, str], why: str, run: Run) -> None:
        self.environment, self.why, self._run = environment, why, run

    @classmethod
    def start(
        cls,
        uuid: str,
        slots: int,
        folder: Path,
        *,
        which: Callable[[str], str | None] = shutil.which,
        run: Run | None = None,
    ) -> Mps:
        """Start it where it is installed and of use: several slots on a card that is not a MIG slice."""
        run = run or _run
        if not uuid:
            return cls({}, "there is no card", run)
        if slots < 2:
            return cls({}, "one slot needs none", run)
        if uuid.startswith("MIG-"):
            return cls({}, "a MIG slice has its multiprocessors for itself", run)
        if which(_CONTROL) is None:
            return cls({}, f"{_CONTROL} is not installed", run)
        folder.mkdir(parents=True, exist_ok=True)
        told = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
        code = run((_CONTROL, "-d"), told | {"CUDA_VISIBLE_DEVICES": uuid}, "")
        if code:
            return cls({}, f"{_CONTROL} ended with {code}", run)
        log.info("the card's slots share it by MPS", card=uuid)
        queues = max(2, min(_CONNECTIONS, _ALL_CONNECTIONS // slots))
        return cls(told | {"CUDA_DEVICE_MAX_CONNECTIONS": str(queues)}, "", run)

    def stop(self) -> None:
        if self.environment:
            self._run((_CONTROL,), self.environment, "quit\n")


def _run(command: Sequence[str], environment: dict[str, str], given: str) -> int:
    try:
        done = subprocess.run(
            list(command),
            env={**os.environ, **environment},
            input=given,
            text=True,
            timeout=_SECONDS,
            check=False,
            capture_output=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode
