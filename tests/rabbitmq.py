"""A RabbitMQ of the tests' own, where the machine has one installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services import free_port

START_SECONDS = 120
_SBIN = "/usr/lib/rabbitmq/bin"


def rabbitmq_program() -> str | None:
    """The server's program; Debian's wrapper wants to be run as its own user, so the script behind it is taken."""
    return shutil.which("rabbitmq-server", path=_SBIN) or shutil.which("rabbitmq-server")


@contextmanager
def rabbitmq(folder: Path) -> Iterator[str]:
    """Run a server with its data in `folder`, on ports of its own; its amqp:// URL when it answers."""
    program = rabbitmq_program()
    if program is None:
        raise RuntimeError("There is no rabbitmq-server on this machine.")
    folder.mkdir(parents=True)
    port = free_port()
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.default = 127.0.0.1:{port}\nvm_memory_high_watermark.absolute = 512MB\n"
    )
    (folder / "advanced.config").write_text("[].\n")
    (folder / "enabled_plugins").write_text("[].\n")
    name = f"farm{port}@localhost"
    env = {
        "PATH": f"{os.environ['PATH']}:/usr/sbin",
        "HOME": str(folder),
        "RABBITMQ_NODENAME": name,
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
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([program], env=env, stdout=output, stderr=output, start_new_session=True)
    try:
        _wait(process, port, folder / "output")
        yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _end_port_mapper(env)


def _wait(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"RabbitMQ did not start:\n{output.read_text(errors='replace')[-2000:]}")


def _end_port_mapper(env: dict[str, str]) -> None:
    """Erlang's epmd is a daemon that outlives the server which started it; ours listens on a port of its own."""
    if epmd := shutil.which("epmd"):
        subprocess.run([epmd, "-kill"], env=env, capture_output=True, check=False)
