"""The loop around the services: no failure of one keeps the others from their duty."""

from __future__ import annotations

from dataclasses import dataclass, field

from farm.errors import InfrastructureError
from farm.jobs.reconcile import Runner
from farm.jobs.reconcile.runner import Pass


@dataclass
class Duty:
    name: str
    results: list[int | Exception]
    calls: int = field(default=0)

    def run_once(self) -> int:
        self.calls += 1
        result = self.results.pop(0) if self.results else 0
        if isinstance(result, Exception):
            raise result
        return result


def test_it_rests_only_when_there_is_nothing_to_do() -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 4

    Runner([Duty("a", [2, 0, 1]), Duty("b", [0, 0])], 2.0, wait).run()
    assert waits == [0.0, 2.0, 0.0, 2.0]


def test_a_failing_service_is_reported_and_the_next_one_runs() -> None:
    passes: list[Pass] = []
    last = Duty("c", [3])
    ticks = iter(range(100))
    services = [Duty("a", [InfrastructureError("away")]), Duty("b", [ValueError("odd")]), last]
    runner = Runner(services, 1.0, lambda _: True, report=passes.append, clock=lambda: next(ticks))
    assert runner.run_round() == 3
    assert [(p.service, p.done, p.seconds, bool(p.error)) for p in passes] == [
        ("a", 0, 1, True),
        ("b", 0, 1, True),
        ("c", 3, 1, False),
    ]
