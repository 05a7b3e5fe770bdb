"""Services as processes: what one is, how its processes are known again, and how they are ended.

Every process that the embedded farm starts has FARM_SUPERVISED=<instance>/<service> in its environment, and so has
whatever that process starts, in whichever session or process group. By this mark, and by nothing else, processes are
found and ended: no other program's process can be hit, however old a process id is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

MARK = "FARM_SUPERVISED"
_POLL = 0.01  # seconds


@dataclass(frozen=True)
class Service:
    """How to run one service of the farm.

    Attributes
    ----------
    argv, env: what is executed; `env` is the whole environment, but for the mark.
    ready: says whether the service answers; None when there is nothing to ask.
    before: run before each start, to clear what a crash left behind.
    prepare: run once when the service is first ready, before the next one is started.
    stop_signal, stop_seconds: how it is asked to end, and how long it may take before it is killed.
    start_seconds: how long it may take to become ready.
    pass_fds: open files that the process inherits.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ready: Callable[[], bool] | None = None
    before: Callable[[], None] | None = None
    prepare: Callable[[], None] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    start_seconds: float = 60.0
    pass_fds: tuple[int, ...] = field(default=())

    def environment(self, instance: str) -> dict[str, str]:
        return {**self.env, MARK: f"{instance}/{self.name}"}


def marked(instance: str, name: str | None = None) -> list[psutil.Process]:
    """The live processes of an instance, or of one of its services."""
    prefix = f"{instance}/"
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            mark = process.environ().get(MARK, "")
            wanted = mark == f"{instance}/{name}" if name else mark.startswith(prefix)
            if wanted and process.pid != os.getpid() and is_alive(process):
                found.append(process)
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether it still executes; a zombie, which only waits for its parent to look, does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(processes: Iterable[psutil.Process], *, first: signal.Signals, seconds: float) -> None:
    """Send `first`, and SIGKILL to those that are alive `seconds` later; returns when all have ended."""
    alive = list(processes)
    _send(alive, first)
    alive = _wait(alive, seconds)
    _send(alive, signal.SIGKILL)
    _wait(alive, 5)


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that are alive after `seconds`, or sooner when none is. Collects no exit code: that is their parent's."""
    deadline = time.monotonic() + seconds
    while (alive := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return alive


def end_instance(instance: str, *, seconds: float = 3.0) -> int:
    """End whatever an instance left behind, with all that it starts meanwhile; returns how many processes it was."""
    count = 0
    for patience in (seconds, 0.0, 0.0):
        left = marked(instance)
        if not left:
            break
        count += len(left)
        end(left, first=signal.SIGTERM, seconds=patience)
    return count


def _send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def backoff(failures: int) -> float:
    """Seconds to wait before the start that follows the n-th failure in a row: 0, 0.2, 0.4, ... 10."""
    return 0.0 if failures <= 1 else min(10.0, 0.1 * 2.0 ** (failures - 1))
