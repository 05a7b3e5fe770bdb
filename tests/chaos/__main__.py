"""`python -m tests.chaos`: hurt a farm in every known way, in an order that the seed decides, until the time is up.

Prints one line for each scenario and one JSON line at the end. Exit code 1 when something was found that must not be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.harness import ChaosFarm, chaos_farm
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.services import http_server


def run_scenario(farm: ChaosFarm, scenario: Scenario, seed: int) -> str:
    """ "" when all held, else what did not."""
    dice = random.Random(f"{seed} {scenario.name}")
    try:
        found = scenario.run(farm, dice)
        farm.calm()
        farm.check(found)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        farm.calm()
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="no scenario is begun later")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--scenarios", default="", help="only those whose name contains one of these words, by comma")
    parser.add_argument("--store", choices=("folder", "s3"), default="folder")
    parser.add_argument("--once", action="store_true", help="each scenario once, then stop")
    given = parser.parse_args(arguments)
    words = [word for word in given.scenarios.split(",") if word]
    wanted = [s for s in SCENARIOS if not words or any(word in s.name for word in words)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-chaos-")))
        url = stack.enter_context(_s3(folder)) if given.store == "s3" else ""
        farm = stack.enter_context(chaos_farm(folder, s3=url))
        done, failed = _rounds(farm, wanted, given.seed, given.minutes, once=given.once)
        if failed:
            sys.stderr.write(f"The logs of the services:\n{_logs(farm.local.home.logs)}\n")
    line = {"chaos": given.store, "seed": given.seed, "done": done, "failed": failed, "ok": not failed}
    sys.stdout.write(json.dumps(line) + "\n")
    return 1 if failed else 0


def _rounds(
    farm: ChaosFarm, wanted: Sequence[Scenario], seed: int, minutes: float, *, once: bool
) -> tuple[int, dict[str, str]]:
    until, done, failed = time.monotonic() + 60 * minutes, 0, {}
    dice = random.Random(seed)
    while True:
        for scenario in dice.sample(list(wanted), len(wanted)):
            if time.monotonic() > until:
                return done, failed
            begun = time.monotonic()
            wrong = run_scenario(farm, scenario, dice.randrange(1 << 30))
            done += 1
            sys.stdout.write(f"{time.monotonic() - begun:6.1f} s  {scenario.name}: {wrong or 'held'}\n")
            sys.stdout.flush()
            if wrong:
                failed[scenario.name] = wrong
        if once:
            return done, failed


def _s3(folder: Path) -> object:
    home = folder / "s3"
    home.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}
    return http_server([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], env)


def _logs(folder: Path) -> str:
    return "\n".join(_end_of(path) for path in sorted(folder.glob("*.log")))


def _end_of(path: Path, lines: int = 30) -> str:
    last: Iterable[str] = path.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join([f"--- {path.name}", *last])


if __name__ == "__main__":
    sys.exit(main())
