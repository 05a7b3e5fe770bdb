"""Named points of a process at which the harness makes something go wrong.

A folder holds what is armed: a file by the point's name with a `Fault` in it. A process that reaches the point takes
the file by renaming it, so exactly one of many meets the fault, and what it became tells the harness who did.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

FOLDER = "FARM_CHAOS_POINTS"
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a point. `skip`: at the n-th time. `act`: kill, exit, stop (the whole process, until SIGCONT), or
    poison: an error as CUDA gives it when the process has lost its context.

    With processes that reach the point in the same instant, one of them may go uncounted.
    """

    act: str
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Rate:
    """Faults by chance: a share of the calls is not done (and says so), as many are done and say that they failed.

    `only`: "before" or "after" throws nothing but that one; `calls` names what is hurt, "" is everything.
    """

    share: float
    seed: int
    slow_seconds: float = 0.0
    only: str = ""
    calls: str = ""


class Points:
    """The armed points in `folder`, seen from both sides."""

    def __init__(self, folder: Path, *, act: Callable[[str], None] | None = None) -> None:
        self._folder = folder
        self._act = act or _act
        self._dice: dict[Rate, random.Random] = {}

    def arm(self, name: str, fault: Fault) -> None:
        self._write(name, json.dumps(asdict(fault)))

    def set_rate(self, name: str, rate: Rate | None) -> None:
        if rate is None:
            (self._folder / name).unlink(missing_ok=True)
        else:
            self._write(name, json.dumps(asdict(rate)))

    def set_clock(self, role: str, shift: str) -> None:
        """By how much the clocks of that role's processes are wrong that start from now on in seconds."""
        if shift:
            self._write(f"clock-{role}", shift)
        else:
            (self._folder / f"clock-{role}").unlink(missing_ok=True)

    def clock(self, role: str) -> str:
        try:
            return (self._folder / f"clock-{role}").read_text()
        except FileNotFoundError:
            return ""

    def disarm(self) -> None:
        """Forget all faults, met and unmet."""
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)

    def met(self, name: str) -> int | None:
        """The process that met the fault, once one has."""
        found = [int(path.name.rpartition(".")[2]) for path in self._folder.glob(f"{name}.met.*")]
        return found[0] if found else None

    def reach(self, name: str) -> None:
        """Called in the process under test."""
        armed = self._folder / name
        if not armed.exists():
            return
        taken = self._folder / f".{name}.{os.getpid()}"
        try:
            armed.rename(taken)
        except FileNotFoundError:
            return  # another process was faster
        fault = Fault(**json.loads(taken.read_text()))
        if fault.skip:
            taken.unlink()
            self.arm(name, replace(fault, skip=fault.skip - 1))
            return
        taken.rename(self._folder / f"{name}.met.{os.getpid()}")
        self._act(fault.act)

    def throw(self, name: str, call: str = "") -> str:
        """ "before", "after" or "" for one call that is under a Rate; waits where the rate says that calls are slow."""
        try:
            rate = Rate(**json.loads((self._folder / name).read_text()))
        except FileNotFoundError:
            return ""
        if rate.calls not in ("", call):
            return ""
        dice = self._dice.setdefault(rate, random.Random(f"{rate.seed} {os.getpid()}"))
        time.sleep(rate.slow_seconds * dice.random())
        thrown = dice.random()
        if rate.only:
            return rate.only if thrown < rate.share else ""
        return BEFORE if thrown < rate.share else AFTER if thrown < 2 * rate.share else ""

    def _write(self, name: str, text: str) -> None:
        part = self._folder / f".{name}.new.{os.getpid()}"
        part.write_text(text)
        part.rename(self._folder / name)


def _act(act: str) -> None:
    if act == "poison":
        raise RuntimeError("CUDA failure 700: an illegal memory access was encountered (injected)")
    if act == "exit":
        os._exit(1)
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[act])


def points_of_process() -> Points:
    return Points(Path(os.environ[FOLDER]))
