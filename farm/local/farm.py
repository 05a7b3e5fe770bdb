"""The embedded farm: everything on this machine, started and stopped as one."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from farm import errors
from farm.errors import FarmError, InfrastructureError
from farm.local.home import FarmState, Home, remove_sockets
from farm.local.logs import rotate, tail
from farm.local.postmaster import end_server
from farm.local.process import MARK, Service, end, end_instance, marked
from farm.local.services import Plan, listen
from farm.local.supervisor import Stop, Supervisor
from farm.settings import PREFIX, Settings, load_settings

SERVICES = "farm.local.services:farm_services"


class LocalFarm:
    """A farm in a folder.

    `run` supervises it in this process (`farm up`); `up` and `down` start and stop one in the background; as a context
    manager it is up inside the block, and ends with this process even if that is killed. A farm that is already up in
    the folder is used by the block and left running.

    Parameters
    ----------
    home: the folder; `Settings.home` by default.
    settings: by default those of the environment.
    services: `module:function` that makes the services from a `Plan`.
    """

    def __init__(self, home: Path | None = None, settings: Settings | None = None, *, services: str = SERVICES) -> None:
        self.settings = settings or load_settings()
        self.home = Home(home or self.settings.home)
        self._services = services
        self._own: _Background | None = None
        self._state: FarmState | None = None

    @property
    def state(self) -> FarmState | None:
        """What runs in the home now, or None."""
        return self._state or self.home.running()

    def processes(self) -> dict[str, list[int]]:
        """The process ids of each service that runs."""
        found: dict[str, list[int]] = {}
        if state := self.home.running():
            for process in marked(state.instance):
                with suppress(psutil.Error):
                    found.setdefault(process.environ()[MARK].split("/", 1)[1], []).append(process.pid)
        return found

    def run(self, on_ready: Callable[[FarmState], None] = lambda state: None, *, lifeline: int | None = None) -> None:
        """Start the farm and supervise it until SIGTERM, SIGINT, SIGHUP or the end of the file `lifeline`.

        For the main thread. ConflictError when a farm is up in the home, InputError when the wanted port is taken,
        InfrastructureError with the end of its log when a service does not start.
        """
        self.home.make()
        stop = Stop()
        with self.home.locked(), stop.listening(lifeline), self._listener() as listener:
            last = self.home.last_state()
            self._recover(last)
            sockets = self.home.make_sockets(last)
            try:
                self._supervise(Plan(self.home, self.settings, sockets, listener), stop, on_ready)
            finally:
                remove_sockets(sockets)
                self.home.clear_state()

    def _supervise(self, plan: Plan, stop: Stop, on_ready: Callable[[FarmState], None]) -> None:
        instance = uuid.uuid4().hex
        state = _state(plan, instance)
        self.home.write_state(state)
        guard = _Guard(instance, self.home)
        supervisor = Supervisor(
            _load(self._services)(plan),
            instance=instance,
            logs=self.home.logs,
            stop=stop,
            tend=guard.keep,
            check=self.home.check_disk,
        )
        try:
            guard.keep()
            supervisor.start()
            if not stop.requested:
                state = replace(state, ready=True)
                self.home.write_state(state)
                on_ready(state)
                supervisor.run()
        finally:
            supervisor.stop()
            guard.release()

    def up(self) -> FarmState:
        """Start the farm in the background; returns when it is ready. Errors as of `run`."""
        background = _Background(self, embedded=False)
        state = background.wait_ready()
        background.let_go()
        return state

    def down(self) -> bool:
        """Stop the farm of the home and wait for its end; whether there was one.

        Its worker may finish what it has (`FARM_DRAIN_SECONDS`); a farm that takes a minute longer is killed.
        """
        pid = self.home.holder()
        if pid is None:
            return False
        with suppress(psutil.NoSuchProcess):
            end([psutil.Process(pid)], first=signal.SIGTERM, seconds=self.settings.drain_seconds + 60)
        self.home.wait_for_guard()
        return True

    def __enter__(self) -> Self:
        self._state = self.home.running()
        if self._state is None:
            self._own = _Background(self, embedded=True)
            self._state = self._own.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state = None
        if self._own:
            self._own.release()
            self._own = None

    @contextmanager
    def _listener(self) -> Iterator[socket.socket]:
        listener = listen(self.settings.api_host, self.settings.api_port, self.home.last_port())
        with listener:
            self.home.remember_port(listener.getsockname()[1])
            yield listener

    def _recover(self, last: FarmState | None) -> None:
        """End what a farm that was killed together with its guard left behind in this home."""
        self.home.wait_for_guard()
        if last:
            end_instance(last.instance)
            end_server(self.home.postgres)


class _Guard:
    """The process that ends the services when this one is killed."""

    def __init__(self, instance: str, home: Home) -> None:
        self._argv = (sys.executable, "-m", "farm.local.guard", instance, str(home.path))
        self._process: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """Start it, or start it again when it ended."""
        if self._process is None or self._process.poll() is not None:
            self._close_pipe()
            self._process = subprocess.Popen(
                self._argv, env=_clean_environment(), stdin=subprocess.PIPE, start_new_session=True
            )

    def release(self) -> None:
        self._close_pipe()
        if self._process:
            self._process.wait()

    def _close_pipe(self) -> None:
        if self._process and self._process.stdin:
            self._process.stdin.close()


class _Background:
    """A supervisor in a process of its own.

    Parameters
    ----------
    embedded: whether it ends with this process.
    """

    def __init__(self, farm: LocalFarm, *, embedded: bool) -> None:
        farm.home.make()
        self._log = farm.home.logs / "supervisor.log"
        rotate(self._log)
        self._start = self._log.stat().st_size if self._log.exists() else 0
        self._ready, telling = os.pipe()
        inherited: int | None = None
        self._lifeline: int | None = None
        if embedded:
            inherited, self._lifeline = os.pipe()
        argv = [sys.executable, "-m", "farm.local", "--ready-fd", str(telling), "--services", farm._services]
        passed = [telling]
        if inherited is not None:
            argv += ["--lifeline-fd", str(inherited)]
            passed.append(inherited)
        output = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                argv,
                env={**_clean_environment(), **farm.settings.environment(), f"{PREFIX}HOME": str(farm.home.path)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=passed,
                start_new_session=True,
            )
        finally:
            os.close(output)
            for descriptor in passed:
                os.close(descriptor)

    def wait_ready(self) -> FarmState:
        """The state of the farm when it is ready; raises the error that the supervisor met."""
        try:
            with os.fdopen(self._ready, "rb") as ready:
                line = ready.readline()
        except BaseException:
            self._process.terminate()
            self.release()
            raise
        if line:
            body = json.loads(line)
            if "state" in body:
                return FarmState(**body["state"])
            self.release()
            raise _error(body)
        self.release()
        raise InfrastructureError(
            f"The farm ended while it was started. Its log ends with:\n{tail(self._log, start=self._start)}\n",
            where="supervisor",
            do=f"The whole log is {self._log}.",
        )

    def let_go(self) -> None:
        """Forget the process, which goes on."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # said of every child that outlives its object
            del self._process

    def release(self) -> None:
        """Let an embedded farm stop, and wait for its end."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        self._process.wait()


def ready_line(state: FarmState) -> bytes:
    """What a background supervisor tells the process that started it."""
    return json.dumps({"state": asdict(state)}).encode() + b"\n"


def error_line(error: FarmError) -> bytes:
    body = {"error": type(error).__name__, "what": error.what, "where": error.where, "do": error.do}
    return json.dumps(body).encode() + b"\n"


def _error(body: dict[str, str]) -> FarmError:
    kind = getattr(errors, body["error"], FarmError)
    made = kind(body["what"], where=body["where"], do=body["do"])
    assert isinstance(made, FarmError)  # noqa: S101
    return made


def _load(name: str) -> Callable[[Plan], list[Service]]:
    module, _, function = name.partition(":")
    made: Callable[[Plan], list[Service]] = getattr(importlib.import_module(module), function)
    return made


def _state(plan: Plan, instance: str) -> FarmState:
    return FarmState(
        pid=os.getpid(),
        instance=instance,
        url=plan.url,
        database_url=plan.postgres.url(),
        broker_url=plan.valkey.url(),
        store=plan.home.store.as_uri(),
        sockets=str(plan.sockets),
    )


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != MARK}
