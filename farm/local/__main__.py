"""`python -m farm.local`: the supervisor of a farm in the background; started by `LocalFarm`, not by people."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from farm import log
from farm.errors import FarmError
from farm.local.farm import SERVICES, LocalFarm, error_line, ready_line
from farm.settings import load_settings


@click.command()
@click.option("--ready-fd", type=int, required=True, help="Where to say that the farm is ready, or why it is not.")
@click.option("--lifeline-fd", type=int, default=None, help="Stop at the end of this file.")
@click.option("--services", default=SERVICES, help="module:function that makes the services.")
def main(ready_fd: int, lifeline_fd: int | None, services: str) -> None:
    def tell(line: bytes) -> None:
        with suppress(BrokenPipeError):
            os.write(ready_fd, line)
        os.close(ready_fd)

    os.set_inheritable(ready_fd, False)
    settings = load_settings()
    log.configure(settings.log_level, settings.log_format)
    try:
        LocalFarm(settings=settings, services=services).run(lambda state: tell(ready_line(state)), lifeline=lifeline_fd)
    except FarmError as error:
        with suppress(OSError):
            tell(error_line(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
