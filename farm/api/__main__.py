"""`python -m farm.api`: serve the API and its pages on FARM_API_HOST and FARM_API_PORT, by gunicorn with threads.

A supervisor may hand down the listening socket instead: its descriptor is FARM_API_FD. Exit codes: 2 where the address
cannot be had or a setting is wrong, 3 where the API would be open to everybody.
"""

from __future__ import annotations

import os
import sys

import structlog

from farm import log as farm_log
from farm.api.guard import check_exposure
from farm.errors import ErrorClass, FarmError, InputError
from farm.local.services import listen
from farm.settings import Settings, load_settings

DESCRIPTOR = "FARM_API_FD"
GRACE_SECONDS = 5

log = structlog.get_logger(__name__)


def gunicorn_argv(descriptor: int, threads: int) -> tuple[str, ...]:
    """One process with threads on a listening socket; the application writes its own request log."""
    return (
        *(sys.executable, "-m", "gunicorn", "--bind", f"fd://{descriptor}"),
        *("--worker-class", "gthread", "--workers", "1", "--threads", str(threads)),
        *("--graceful-timeout", str(GRACE_SECONDS), "--timeout", "120", "--keep-alive", "5"),
        *("--no-control-socket", "--log-level", "warning"),
        "farm.api.app:create_app()",
    )


def main() -> int:  # noqa: RET503  # ends as another program
    try:
        settings = load_settings()
        farm_log.configure(settings.log_level, settings.log_format)
        check_exposure(settings)
        descriptor = _descriptor(settings)
    except FarmError as error:
        sys.stderr.write(f"{error}\n")
        return 3 if error.error_class is ErrorClass.POLICY else 2
    argv = gunicorn_argv(descriptor, settings.api_threads)
    os.execv(argv[0], argv)  # noqa: S606  # this process becomes gunicorn


def _descriptor(settings: Settings) -> int:
    given = os.environ.get(DESCRIPTOR)
    if given is not None:
        if not given.isdigit():
            raise InputError("It is not a descriptor.", where=DESCRIPTOR, do="Leave it unset.")
        return int(given)
    listener = listen(settings.api_host, settings.api_port)
    host, port = listener.getsockname()[:2]
    log.info("api listens", host=host, port=port)
    listener.set_inheritable(True)
    return listener.detach()


if __name__ == "__main__":
    raise SystemExit(main())
