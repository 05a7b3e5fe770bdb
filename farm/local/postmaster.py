"""Ending a PostgreSQL server that is known by its data folder only. Imports little: the guard stays small."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import psutil

from farm.local.process import end


def end_server(data: Path) -> bool:
    """End a server that runs on this very data folder; whether there was one.

    `postmaster.pid` may be old and its number another program's by now: a process counts only if its command line
    names this folder.
    """
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        process = psutil.Process(pid)
        arguments = process.cmdline()
    except (OSError, ValueError, psutil.Error):
        return False
    if not arguments or Path(arguments[0]).name != "postgres" or str(data) not in arguments:
        return False
    backends = []
    with suppress(psutil.Error):
        backends = process.children(recursive=True)
    end([process], first=signal.SIGINT, seconds=10)
    end(backends, first=signal.SIGQUIT, seconds=5)
    return True
