"""A RabbitMQ of the tests' own, where the machine has one installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from farm.local.process import Service
from farm.local.services import Plan, farm_services
from tests.services import free_port

START_SECONDS = 120
BROKER = "FARM_TESTS_BROKER_URL"
MISSING = "there is no rabbitmq-server on this machine"
_SBIN = "/usr/lib/rabbitmq/bin"
"""Debian's wrapper in /usr/sbin wants to be run as its own user, so the script behind it is taken."""


def rabbitmq_program() -> str | None:
    return shutil.which("rabbitmq-server", path=_SBIN) or shutil.which("rabbitmq-server")


class RabbitMQ:
    """One server with its data in `folder`, on ports of its own. `url` is for Celery."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        folder.mkdir(parents=True)
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self._port}\nvm_memory_high_watermark.absolute = 512MB\n"
        )
        (folder / "advanced.config").write_text("[].\n")
        (folder / "enabled_plugins").write_text("[].\n")
        self._env = {
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"farm{self._port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(free_port()),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        program = rabbitmq_program()
        if program is None:
            raise RuntimeError(f"It cannot be started: {MISSING}.")
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [program], env=self._env, stdout=output, stderr=output, start_new_session=True
            )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
                return
            time.sleep(0.1)
        raise RuntimeError(f"RabbitMQ did not start:\n{(self._folder / 'output').read_text(errors='replace')[-2000:]}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def end_port_mapper(self) -> None:
        """Erlang's epmd is a daemon that outlives the server which started it; ours listens on a port of its own."""
        if epmd := shutil.which("epmd"):
            subprocess.run([epmd, "-kill"], env=self._env, capture_output=True, check=False)


@contextmanager
def rabbitmq(folder: Path) -> Iterator[RabbitMQ]:
    server = RabbitMQ(folder)
    try:
        server.start()
        yield server
    finally:
        server.end()
        server.end_port_mapper()


def services(plan: Plan) -> list[Service]:
    """The embedded farm's services, with their wake-ups by the broker that the environment names."""
    found = farm_services(plan)
    changed = {"FARM_BROKER_URL": os.environ[BROKER]}
    own = ("reconciler", "worker", "api")
    return [replace(s, env={**s.env, **changed}) if s.name in own else s for s in found]
