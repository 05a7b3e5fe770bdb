"""`python -m farm.local.guard INSTANCE HOME`: ends what a supervisor leaves behind when it is killed.

It waits for the end of its standard input, whose other end the supervisor holds and never writes to. The supervisor
stops its services before it lets go, so that after a clean stop there is nothing left to do. A next farm in the same
home waits for the guard's lock.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from farm.local.home import Home
from farm.local.postmaster import end_server
from farm.local.process import end_instance


def main(argv: list[str]) -> int:
    instance, home = argv[0], Home(Path(argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with home.guarded():
        while os.read(sys.stdin.fileno(), 1):
            pass
        end_instance(instance)
        end_server(home.postgres)  # in a container root may not read the mark of another user's process
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
