"""Runs the services in turn, for as long as the process lives."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from farm.errors import FarmError

log = structlog.get_logger(__name__)


class Service(Protocol):
    """One duty. `run_once` does a bounded pass and returns how many things it did."""

    @property
    def name(self) -> str: ...

    def run_once(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Pass:
    """What one service did in one pass; `error` is set when it could not."""

    service: str
    done: int
    seconds: float
    error: str = ""


def _nothing(_: Pass) -> None:
    return


@dataclass(slots=True)
class Runner:
    """Runs every service once per round. A service that fails does not keep the others from their duty.

    Attributes
    ----------
    services: what to run, in order.
    seconds: pause between rounds in which nothing was done; after work the next round follows at once.
    wait: sleeps that long, or less when it is told to stop; True ends the loop.
    report: hears of every pass (metrics, tests that wait for one).
    """

    services: Sequence[Service]
    seconds: float
    wait: Callable[[float], bool]
    report: Callable[[Pass], None] = _nothing
    clock: Callable[[], float] = field(default=time.monotonic)

    def run(self) -> None:
        """Run until `wait` says stop."""
        while not self.wait(0.0 if self.run_round() else self.seconds):
            pass

    def run_round(self) -> int:
        """One pass of every service. Returns how many things were done."""
        return sum(self._run(service) for service in self.services)

    def _run(self, service: Service) -> int:
        begun = self.clock()
        try:
            done = service.run_once()
        except FarmError as error:
            log.warning("reconciler service failed", service=service.name, error=str(error))
            self.report(Pass(service.name, 0, self.clock() - begun, str(error)))
            return 0
        except Exception as error:
            log.exception("reconciler service failed", service=service.name)
            self.report(Pass(service.name, 0, self.clock() - begun, repr(error)))
            return 0
        self.report(Pass(service.name, done, self.clock() - begun))
        return done
