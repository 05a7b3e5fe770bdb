"""What an embedded farm runs, and with which settings."""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.errors import InputError
from farm.local.home import SECRETS, Home
from farm.local.postgres import Postgres
from farm.local.process import MARK, Service
from farm.local.valkey import Valkey
from farm.provenance.permit import load_or_make_key, public_key
from farm.settings import PREFIX, Settings


@dataclass(frozen=True)
class Plan:
    """All that the services of one run are made from.

    Attributes
    ----------
    listener: the API's listening socket; it stays open while the API is started again, so that callers wait instead of
        being refused.
    """

    home: Home
    settings: Settings
    sockets: Path
    listener: socket.socket

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def postgres(self) -> Postgres:
        return Postgres(self.home.postgres, self.sockets / "postgres")

    @property
    def valkey(self) -> Valkey:
        return Valkey(self.home.valkey, self.sockets / "valkey")

    def permit_public_key(self) -> str:
        """By which the worker knows the permits that the API and the reconciler of this run sign."""
        return public_key(load_or_make_key(self.settings.permit_key_path or self.home.secrets / "permit.pem"))

    def environment(self) -> dict[str, str]:
        """The environment of the farm's own services: this one's, and the addresses and secrets of the run."""
        return {
            **{name: value for name, value in os.environ.items() if name != MARK},
            **self.settings.environment(),
            f"{PREFIX}HOME": str(self.home.path),
            f"{PREFIX}URL": self.url,
            f"{PREFIX}DATABASE_URL": self.postgres.url(),
            f"{PREFIX}BROKER_URL": self.valkey.url(),
            f"{PREFIX}STORE": self.home.store.as_uri(),
            f"{PREFIX}SCRATCH": str(self.settings.scratch or self.home.scratch),
            f"{PREFIX}PERMIT_PUBLIC_KEY": self.permit_public_key(),
            **{f"{PREFIX}{name.upper()}_FILE": str(self.home.secret(name)) for name in SECRETS},
        }


def farm_services(plan: Plan) -> list[Service]:
    """PostgreSQL, Valkey, the reconciler, one worker and the API, in the order of their start.

    The API is last: the others load while it does, and it is the first to stop taking work.
    """
    env = plan.environment()
    return [
        *backing_services(plan),
        Service(name="reconciler", argv=module_argv("farm.cli.reconciler"), env=env),
        Service(
            name="worker",
            argv=module_argv("farm.worker"),
            env=env,
            stop_seconds=plan.settings.drain_seconds + 10,
        ),
        Service(
            name="api",
            argv=module_argv("farm.api"),
            env={**env, f"{PREFIX}API_FD": str(plan.listener.fileno())},
            ready=lambda: answers(plan.listener),
            pass_fds=(plan.listener.fileno(),),
            stop_seconds=8,
        ),
    ]


def backing_services(plan: Plan) -> list[Service]:
    """PostgreSQL, with the schema brought up to date, and Valkey."""
    env = server_environment(os.environ)
    return [plan.postgres.service(env, prepare=lambda: migrate(plan.postgres.url())), plan.valkey.service(env)]


def migrate(url: str) -> None:
    from farm.db.migrate import upgrade

    upgrade(url)


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What PostgreSQL and Valkey need: no secrets, and times and messages that do not depend on who starts them."""
    return {"PATH": environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def module_argv(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module)


def listen(host: str, port: int, remembered: int = 0) -> socket.socket:
    """The API's socket. A port that was asked for must be free; else the remembered one, or any."""
    for candidate in dict.fromkeys([port] if port else [remembered, 0]):
        try:
            return socket.create_server((host, candidate), backlog=128, family=_family(host))
        except OSError as error:
            if candidate == 0 or candidate == port:
                raise _no_port(host, candidate, error) from error
    raise AssertionError("the last candidate either listens or raises")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _no_port(host: str, port: int, error: OSError) -> InputError:
    return InputError(
        f"The API cannot listen on {host}:{port}: {error.strerror}.",
        where="FARM_API_PORT",
        do="Choose another port, 0 for any free one, or stop the program that holds it.",
    )


def answers(listener: socket.socket) -> bool:
    """Whether the API says that it is healthy."""
    host, port = listener.getsockname()[:2]
    connection = http.client.HTTPConnection({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port, timeout=5)  # noqa: S104
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
