"""`python -m farm.api`: serve the API and its pages with gunicorn, one process, `FARM_API_THREADS` threads.

The port is `FARM_API_PORT`; the line "api ready" of the log says the URL once the port listens. SIGTERM ends it; live
views are cut after a moment and take themselves up again.
"""

from __future__ import annotations

import errno
import socket
import sys
from typing import Any

import structlog
from flask import Flask
from gunicorn.app.base import BaseApplication

from farm import log as farm_log
from farm.api.guard import check_exposure
from farm.errors import ErrorClass, FarmError, InputError
from farm.settings import Settings, load_settings

GRACE_SECONDS = 3

log = structlog.get_logger(__name__)


class Server(BaseApplication):  # type: ignore[misc]
    """gunicorn around the application, which is made in the serving process: nothing of it survives a fork."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        host, inherited = self._settings.api_host, self._settings.api_fd
        address = f"[{host}]" if ":" in host else host
        options: dict[str, Any] = {
            "bind": f"{address}:{self._settings.api_port}" if inherited is None else f"fd://{inherited}",
            "worker_class": "gthread",
            "workers": 1,
            "threads": self._settings.api_threads,
            "graceful_timeout": GRACE_SECONDS,
            "timeout": 60,
            "keepalive": 15,
            "accesslog": None,
            "logger_class": "farm.api.gunicorn_log.QuietLogger",
            "when_ready": _say_ready,
            "limit_request_line": 4094,
            "control_socket_disable": True,  # it would lie in the user's home
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        from farm.api.app import create_app

        farm_log.configure(self._settings.log_level, self._settings.log_format)
        return create_app(self._settings)


def _say_ready(arbiter: Any) -> None:
    for listener in arbiter.LISTENERS:
        host, port = listener.sock.getsockname()[:2]
        log.info("api ready", host=host, port=port)


def check_port(settings: Settings) -> None:
    """InputError when the port cannot be had: gunicorn itself would try five times, then blame nobody."""
    if settings.api_port == 0 or settings.api_fd is not None:
        return
    family = socket.AF_INET6 if ":" in settings.api_host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.api_host, settings.api_port))
        except OSError as error:
            what = {
                errno.EADDRINUSE: f"Port {settings.api_port} is in use.",
                errno.EACCES: f"Port {settings.api_port} is not for this user.",
            }.get(error.errno or 0, f"The address cannot be had: {error.strerror}.")
            raise InputError(
                what, where=f"{settings.api_host}:{settings.api_port}", do="Set another FARM_API_PORT, or 0 for any."
            ) from error


def main() -> int:
    try:
        settings = load_settings()
        farm_log.configure(settings.log_level, settings.log_format)
        check_exposure(settings)
        check_port(settings)
    except FarmError as error:
        print(error, file=sys.stderr)  # noqa: T201  # this program's last word
        return 3 if error.error_class is ErrorClass.POLICY else 2
    Server(settings).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
