"""`python -m tests.chaos`: hurt a farm in every known way, in an order that the seed decides, until the time is up.

Prints one line for each scenario and one JSON line at the end. Exit code 1 when something was found that must not be.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.chaos.farm import FOLDER, RABBITMQ, S3, VALKEY, chaos_farm
from tests.chaos.harness import ChaosError, ChaosFarm
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import SCENARIOS


def run_scenario(farm: ChaosFarm, scenario: Scenario, seed: int) -> str:
    """ "" when all held, else what did not."""
    dice = random.Random(f"{seed} {scenario.name}")
    try:
        found = scenario.run(farm, dice)
        farm.calm()
        farm.check(found)
        if farm.watcher is not None and farm.watcher.found:
            raise ChaosError(f"broken on the way: {'; '.join(sorted(farm.watcher.found))}")
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        farm.calm()
        if farm.watcher is not None:
            farm.watcher.found.clear()
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="no scenario is begun later")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--scenarios", default="", help="only those whose name or kind contains one of these words, by comma"
    )
    parser.add_argument("--store", choices=(FOLDER, S3), default=FOLDER)
    parser.add_argument("--broker", choices=(VALKEY, RABBITMQ), default=VALKEY)
    parser.add_argument("--once", action="store_true", help="each scenario once, then stop")
    given = parser.parse_args(arguments)
    words = [word for word in given.scenarios.split(",") if word]
    wanted = [s for s in SCENARIOS if not words or any(word in f"{s.kind}: {s.name}" for word in words)]
    with (
        tempfile.TemporaryDirectory(prefix="farm-chaos-") as folder,
        chaos_farm(Path(folder), store=given.store, broker=given.broker) as farm,
    ):
        possible = [scenario for scenario in wanted if scenario.needs <= farm.has]
        for scenario in wanted:
            if lacking := scenario.needs - farm.has:
                sys.stdout.write(f"skipped  {scenario.name}: needs {', '.join(sorted(lacking))}\n")
        done, failed = _rounds(farm, possible, given.seed, given.minutes, once=given.once)
        if failed:
            sys.stderr.write(f"The logs of the services:\n{_logs(farm.local.home.logs)}\n")
        looks = farm.watcher.looks if farm.watcher else 0
    line = {
        "chaos": given.store, "broker": given.broker, "seed": given.seed, "done": done.total(), "kinds": dict(done),
        "looks": looks, "failed": failed, "ok": not failed,
    }  # fmt: skip
    sys.stdout.write(json.dumps(line) + "\n")
    return 1 if failed else 0


def _rounds(
    farm: ChaosFarm, possible: Sequence[Scenario], seed: int, minutes: float, *, once: bool
) -> tuple[Counter[str], dict[str, str]]:
    until, done, failed = time.monotonic() + 60 * minutes, Counter[str](), dict[str, str]()
    dice = random.Random(seed)
    while True:
        for scenario in dice.sample(list(possible), len(possible)):
            if time.monotonic() > until:
                return done, failed
            begun, own = time.monotonic(), dice.randrange(1 << 30)
            wrong = run_scenario(farm, scenario, own)
            done[scenario.kind] += 1
            seconds = time.monotonic() - begun
            sys.stdout.write(f"{seconds:6.1f} s  {scenario.kind}: {scenario.name} [{own}]: {wrong or 'held'}\n")
            sys.stdout.flush()
            if wrong:
                failed[f"{scenario.name} [{own}]"] = wrong
        if once:
            return done, failed


def _logs(folder: Path) -> str:
    return "\n".join(_end_of(path) for path in sorted(folder.glob("*.log")))


def _end_of(path: Path, lines: int = 30) -> str:
    last: Iterable[str] = path.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join([f"--- {path.name}", *last])


if __name__ == "__main__":
    sys.exit(main())
