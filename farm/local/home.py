"""The folder of an embedded farm: who holds it, what runs in it, its secrets, and where its sockets are.

<home>/lock            held (flock) by the supervisor while it lives; the kernel lets go of it when it dies
<home>/farm.json       what runs: URL, process id, addresses; for this user's eyes only
<home>/secrets/        one file for each secret, made on the first start
<home>/postgres/       the database          <home>/valkey/   the broker's log
<home>/store/          objects               <home>/logs/     one file for each service
<home>/scratch/        files of running tasks
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from farm.errors import ConflictError, DiskFullError, InputError
from farm.store.files import disk_errors, replace_file

SECRETS = ("url_secret", "session_secret", "worker_secret")
LEAST_FREE = 256 << 20  # bytes; below this the database and the broker may fail at any write
_SOCKET_FOLDERS = ("postgres", "valkey")
_SOCKET_ROOM = 107 - len("/postgres/.s.PGSQL.5432")  # sun_path holds 108 bytes with its final zero


@dataclass(frozen=True, slots=True)
class FarmState:
    """What runs in a home. `pid` is the supervisor; `instance` marks its processes."""

    pid: int
    instance: str
    url: str
    database_url: str
    broker_url: str
    store: str
    sockets: str
    ready: bool = False


class Home:
    """Paths and files of one home; nothing is made before `make`."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.postgres = self.path / "postgres"
        self.valkey = self.path / "valkey"
        self.store = self.path / "store"
        self.logs = self.path / "logs"
        self.scratch = self.path / "scratch"
        self.secrets = self.path / "secrets"
        self.guard = self.path / "guard"
        self._lock = self.path / "lock"
        self._state = self.path / "farm.json"
        self._port = self.path / "port"

    def make(self) -> None:
        """Make the folder and check its disk. Others may pass it, as root's PostgreSQL must, but see nothing."""
        with disk_errors(self.path, "the farm's home is made"):
            if not self.path.exists():
                self.path.mkdir(parents=True)
                self.path.chmod(0o711)
            for folder in (self.store, self.logs, self.scratch, self.secrets, self.valkey):
                folder.mkdir(mode=0o700, exist_ok=True)
        self.check_disk()

    def check_disk(self) -> None:
        free = shutil.disk_usage(self.path).free
        if free < LEAST_FREE:
            raise DiskFullError(
                f"The disk is full: {free >> 20} MiB are free and the farm needs {LEAST_FREE >> 20}.",
                where=str(self.path),
                do="Free some space, or choose another FARM_HOME.",
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home; ConflictError when another process does."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
                raise ConflictError(
                    f"A farm is already up in this home (process {holder}).",
                    where=str(self.path),
                    do="Use it, stop it with `farm down`, or choose another FARM_HOME.",
                ) from None
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def holder(self) -> int | None:
        """The process that holds the home, or None."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return None
        except PermissionError:
            raise InputError(
                "The farm's home belongs to another user.", where=str(self.path), do="Choose another FARM_HOME."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 32, 0).decode().strip()
            return int(text) if text else None
        else:
            return None
        finally:
            os.close(descriptor)

    def wait_for_guard(self) -> None:
        """Return when the guard of an earlier run is done."""
        with self.guarded():
            pass

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Hold the guard's lock, once nobody else does."""
        descriptor = os.open(self.guard, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def running(self) -> FarmState | None:
        """What runs here now; None when nothing does, or when it is not ready."""
        state = self.last_state() if self.holder() is not None else None
        return state if state and state.ready else None

    def last_state(self) -> FarmState | None:
        """What runs here, or what ran here and had no time to say that it ended."""
        body = _read_json(self._state)
        return FarmState(**body) if body else None

    def write_state(self, state: FarmState) -> None:
        with replace_file(self._state, durable=True) as out:
            out.write(json.dumps(asdict(state), indent=1).encode())

    def clear_state(self) -> None:
        self._state.unlink(missing_ok=True)

    def secret(self, name: str) -> Path:
        """The file of a secret, made when there is none: 32 random bytes as text."""
        path = self.secrets / name
        if not path.exists():
            with replace_file(path, durable=True) as out:
                out.write(secrets.token_urlsafe(32).encode())
        return path

    def last_port(self) -> int:
        """The port of the last run, so that links stay good; 0 when there was none."""
        with suppress(OSError, ValueError):
            return int(self._port.read_text())
        return 0

    def remember_port(self, port: int) -> None:
        with replace_file(self._port) as out:
            out.write(str(port).encode())

    def make_sockets(self, last: FarmState | None) -> Path:
        """A folder with one folder for each server's socket, which others may pass but not look into.

        It lies in the home, or in the temporary folder where the home is too deep: a socket's whole path may be 107
        bytes long. What `last` left there is removed.
        """
        if last and last.sockets:
            remove_sockets(Path(last.sockets))
        folder = self.path / "run"
        if len(os.fsencode(folder)) > _SOCKET_ROOM:
            folder = Path(tempfile.mkdtemp(prefix="farm-"))
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)
        for name in _SOCKET_FOLDERS:
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        return folder


def remove_sockets(folder: Path) -> None:
    """Remove what `make_sockets` made; anything else in it stays, and the folder with it."""
    with suppress(OSError):
        for inner in (folder / name for name in _SOCKET_FOLDERS):
            for path in inner.iterdir() if inner.is_dir() else ():
                if stat.S_ISSOCK(path.lstat().st_mode) or path.name.startswith(".s.PGSQL."):
                    path.unlink(missing_ok=True)
            inner.rmdir()
        folder.rmdir()


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        body = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return body if isinstance(body, dict) else None
