"""Starts services in order, keeps them running, stops them in the opposite order."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from farm.errors import FarmError, InfrastructureError
from farm.local.logs import open_log, rotate, tail
from farm.local.process import Service, backoff, end, marked

log = structlog.get_logger(__name__)

_POLL = 0.03  # between two questions whether a service answers, seconds
_LOOK = 15.0  # between two looks at the logs and the disk, seconds
_STEADY = 30.0  # a service that ran so long has no failures behind it, seconds


@dataclass
class _Running:
    service: Service
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    start_at: float = 0.0


class Supervisor:
    """Runs services in this process's main thread.

    Parameters
    ----------
    services: in the order in which they are started.
    instance: the mark of their processes.
    logs: folder of their log files.
    stop: ends the waiting of `start` and `run`.
    tend: called at every turn of `run`.
    check: called every 15 s and when a start fails; its FarmErrors are better reasons than the service's own, and are
        logged.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        instance: str,
        logs: Path,
        stop: Stop,
        tend: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._instance = instance
        self._logs = logs
        self._stop = stop
        self._tend = tend
        self._check = check
        self._running = [_Running(service) for service in services]

    def start(self) -> None:
        """Start all, each when the one before it is ready; InfrastructureError with the log's end when one is not."""
        for entry in self._running:
            self._wait_ready(entry.service, self._launch(entry))
            if self._stop.requested:
                return
            if entry.service.prepare:
                entry.service.prepare()
            log.info("service ready", service=entry.service.name, seconds=round(time.monotonic() - entry.started, 2))

    def run(self) -> None:
        """Start again whatever ends, until told to stop."""
        next_look = time.monotonic() + _LOOK
        while not self._stop.requested:
            now = time.monotonic()
            self._tend()
            self._collect(now)
            for entry in self._running:
                if entry.process is None and entry.start_at <= now:
                    self._try_launch(entry)
            if now >= next_look:
                self._inspect()
                next_look = now + _LOOK
            due = [entry.start_at for entry in self._running if entry.process is None]
            self._stop.wait(max(0.0, min([next_look, *due]) - time.monotonic()))

    def stop(self) -> None:
        """Stop all, last started first; what does not end in its time is killed."""
        for entry in reversed(self._running):
            service, process, began = entry.service, entry.process, time.monotonic()
            if process is not None and process.poll() is None:
                process.send_signal(service.stop_signal)
                try:
                    process.wait(service.stop_seconds)
                except subprocess.TimeoutExpired:
                    log.warning("service does not stop; killing it", service=service.name)
            end(marked(self._instance, service.name), first=signal.SIGKILL, seconds=5)
            if process is not None:
                process.kill()
                process.wait()
                log.info("service stopped", service=service.name, seconds=round(time.monotonic() - began, 2))
            entry.process = None

    def _launch(self, entry: _Running) -> subprocess.Popen[bytes]:
        service = entry.service
        path = self._logs / f"{service.name}.log"
        rotate(path)
        if service.before:
            service.before()
        output = open_log(path)
        try:
            entry.process = process = subprocess.Popen(
                service.argv,
                env=service.environment(self._instance),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=service.pass_fds,
                start_new_session=True,
            )
        finally:
            os.close(output)
        entry.started = time.monotonic()
        return process

    def _try_launch(self, entry: _Running) -> None:
        try:
            process = self._launch(entry)
        except (FarmError, OSError) as error:
            entry.failures += 1
            entry.start_at = time.monotonic() + backoff(entry.failures)
            log.error("service cannot be started", service=entry.service.name, error=str(error))
        else:
            log.info("service started again", service=entry.service.name, pid=process.pid)

    def _wait_ready(self, service: Service, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + service.start_seconds
        while service.ready and not self._stop.requested and not service.ready():
            if process.poll() is not None:
                raise self._failed(service, f"ended with exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise self._failed(service, f"does not answer after {service.start_seconds:.0f} s")
            self._stop.wait(_POLL)

    def _failed(self, service: Service, how: str) -> InfrastructureError:
        self._check()
        path = self._logs / f"{service.name}.log"
        return InfrastructureError(
            f"The service {how} while it was started. Its log ends with:\n{tail(path) or '(nothing)'}\n",
            where=service.name,
            do=f"The whole log is {path}.",
        )

    def _collect(self, now: float) -> None:
        """Notice services that ended, end what they left behind, and say when each is to be started again."""
        for entry in self._running:
            if entry.process is None or entry.process.poll() is None:
                continue
            steady = now - entry.started > _STEADY
            entry.failures = 1 if steady else entry.failures + 1
            entry.start_at = now + backoff(entry.failures)
            log.warning(
                "service ended",
                service=entry.service.name,
                exit_code=entry.process.returncode,
                starts_again_in=round(entry.start_at - now, 1),
            )
            entry.process = None
            end(marked(self._instance, entry.service.name), first=signal.SIGKILL, seconds=5)

    def _inspect(self) -> None:
        for entry in self._running:
            rotate(self._logs / f"{entry.service.name}.log")
        try:
            self._check()
        except FarmError as error:
            log.error("the farm needs help", error=str(error))


class Stop:
    """A wish to stop, by signal or by the end of a file, that can be waited for. For the main thread."""

    def __init__(self) -> None:
        self.requested = False
        self._selector = selectors.DefaultSelector()

    @contextmanager
    def listening(self, lifeline: int | None = None) -> Iterator[None]:
        """Listen inside the block for SIGTERM, SIGINT, SIGHUP, ended children, and the end of `lifeline`."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(reading, selectors.EVENT_READ, "signal")
        if lifeline is not None:
            self._selector.register(lifeline, selectors.EVENT_READ, "lifeline")
        ending = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in ending}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _on_child)
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            os.close(reading)
            os.close(writing)

    def wait(self, seconds: float) -> None:
        """Until a signal comes, the lifeline ends, or time is up."""
        for key, _ in self._selector.select(seconds):
            if not os.read(key.fd, 4096) and key.data == "lifeline":
                self.requested = True

    def _on_signal(self, number: int, frame: object) -> None:
        self.requested = True


def _on_child(number: int, frame: object) -> None:
    """Only so that the wake-up pipe hears of it."""
