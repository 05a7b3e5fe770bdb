"""Services of a few lines, for tests of the supervisor: each notes what happens to it in a diary beside its home."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from farm.errors import InfrastructureError
from farm.local.process import Service
from farm.local.services import Plan

# Notes its start, starts a grandchild in a session of its own that ends only when it is killed, and waits.
_PROGRAM = """
import os, signal, subprocess, sys
name, diary, stubborn = sys.argv[1:4]
def note(word):
    with open(diary, "a") as out:
        out.write(f"{name} {word} {os.getpid()}\\n")
def leave(number, frame):
    note("stops")
    if stubborn != "yes":
        raise SystemExit(0)
signal.signal(signal.SIGTERM, leave)
child = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
grandchild = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, start_new_session=True)
grandchild.stdout.readline()
note("starts")
while True:
    signal.pause()
"""


def diary(home: Path) -> Path:
    return home.with_name(home.name + ".diary")


def entries(home: Path) -> list[list[str]]:
    """[service, word, process id] in the order in which they were noted."""
    return [line.split() for line in diary(home).read_text().splitlines()] if diary(home).exists() else []


def starts(home: Path, name: str) -> list[int]:
    return [int(pid) for service, word, pid in entries(home) if (service, word) == (name, "starts")]


def fake(plan: Plan, name: str, *, stubborn: bool = False) -> Service:
    before = len(starts(plan.home.path, name))
    return Service(
        name=name,
        argv=(sys.executable, "-c", _PROGRAM, name, str(diary(plan.home.path)), "yes" if stubborn else "no"),
        env={"PATH": os.environ["PATH"]},
        ready=lambda: len(starts(plan.home.path, name)) > before,
        stop_signal=signal.SIGTERM,
        stop_seconds=0.5 if stubborn else 10,
        start_seconds=30,
    )


def two(plan: Plan) -> list[Service]:
    return [fake(plan, "first"), fake(plan, "second")]


def stubborn(plan: Plan) -> list[Service]:
    return [fake(plan, "mule", stubborn=True)]


def broken(plan: Plan) -> list[Service]:
    argv = (sys.executable, "-c", "import sys; sys.exit('the dog ate my socket')")
    return [fake(plan, "first"), Service(name="broken", argv=argv, env={}, ready=lambda: False)]


def silent(plan: Plan) -> list[Service]:
    argv = (sys.executable, "-c", "import signal; signal.pause()")
    return [Service(name="silent", argv=argv, env={}, ready=lambda: False, start_seconds=0.3)]


def unplanned(plan: Plan) -> list[Service]:
    raise InfrastructureError("The service cannot even be planned.", where="unplanned")
