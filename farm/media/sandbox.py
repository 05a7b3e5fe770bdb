"""Read files from outside in a process of its own, with limits on memory, processor time and waiting.

A file that makes the parser crash, hang or eat memory takes that process with it and nothing else. The processes are
forked from one that has the parser loaded already, and one that has read its file well is kept for the next few, so
that a burst of submissions does not pay for a process each. What an old one cannot read is read again by a new one: no
file is refused for what others have left behind.
"""

from __future__ import annotations

import base64
import json
import math
import multiprocessing
import multiprocessing.process
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from farm import errors
from farm.errors import FarmError, InputError
from farm.media.facts import PlateFacts

MEMORY_BYTES = 4 * 1024**3
CPU_SECONDS = 60
WALL_SECONDS = 120.0
FILES = 32
"""A process reads so many files and is then replaced."""
IDLE = 8
"""So many processes at most wait for a next file."""

Read = Callable[[Path], Any]
"""Runs in the child; what it gives must be JSON."""


@cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["farm.media.probe", "farm.media.stills", "farm.media.sandbox"])
    return context


def warm_up() -> None:
    """Have the parser loaded, beside whatever comes next, so that the first file does not wait for that."""
    _forks()
    forkserver.ensure_running()


def _facts(path: Path) -> Any:
    from farm.media.probe import probe  # in the child, where it is loaded: PyAV does not belong into this process

    return probe(path).model_dump(mode="json")


def _stills(path: Path, count: int) -> list[str]:
    from farm.media.stills import stills

    return [base64.b64encode(still).decode() for still in stills(path, count)]


def probe_safely(
    path: Path,
    *,
    memory: int = MEMORY_BYTES,
    cpu_seconds: int = CPU_SECONDS,
    wall_seconds: float = WALL_SECONDS,
    read: Read = _facts,
) -> PlateFacts:
    """`farm.media.probe.probe` in a child process with limits; `read` is another function to be called there.

    Raises what the probe raises, and InputError when the child was killed or overran a limit.
    """
    return PlateFacts.model_validate(_ask(read, path, memory, cpu_seconds, wall_seconds))


def stills_safely(
    path: Path,
    count: int,
    *,
    memory: int = MEMORY_BYTES,
    cpu_seconds: int = CPU_SECONDS,
    wall_seconds: float = WALL_SECONDS,
) -> list[bytes]:
    """`farm.media.stills.stills` in a child process with limits; raises as `probe_safely`."""
    read = partial(_stills, count=count)
    return [base64.b64decode(still) for still in _ask(read, path, memory, cpu_seconds, wall_seconds)]


class _Alone(multiprocessing.process.BaseProcess):
    """This process as the standard library would note it, had it been started from a shell."""

    def __init__(self) -> None:
        self._identity = ()
        self._name = "MainProcess"
        self._parent_pid = None
        self._popen = None
        self._closed = False
        key = multiprocessing.process.AuthenticationString(os.urandom(32))  # type: ignore[attr-defined]
        self._config = {"authkey": key, "semprefix": "/mp"}


@contextmanager
def _on_our_own() -> Iterator[None]:
    """Let a slot of a worker start a process, though Celery's library made the slot a daemonic one.

    What that library notes of a process cannot be handed to a child of the standard library: the rule against children
    of daemonic processes, which may outlive them, and a key that may not be copied. Here the child is ended before the
    call returns, and by its own limits where its parent is killed meanwhile.
    """
    module: Any = multiprocessing.process
    before = module._current_process
    if not before.daemon:
        yield
        return
    module._current_process = _Alone()
    try:
        yield
    finally:
        module._current_process = before


class _ReaderDiedError(Exception):
    """The child ended without an answer, or ran out of memory: `words` say how."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class _Reader:
    """A child that reads files, one after the other. `files`: how many it was given."""

    def __init__(self, memory: int) -> None:
        self._pipe, theirs = _forks().Pipe()
        self.memory = memory
        self.owner = os.getpid()
        self.files = 0
        with _on_our_own():
            self._child = _forks().Process(target=_serve, args=(theirs, memory), daemon=True)
            self._child.start()
        theirs.close()

    def ask(self, read: Read, path: Path, cpu_seconds: int, wall_seconds: float) -> dict[str, Any]:
        """What the child answers. Errors: _ReaderDiedError; InputError when it overran `wall_seconds`."""
        self.files += 1
        try:
            self._pipe.send((read, path.absolute(), cpu_seconds))
            if not self._pipe.poll(wall_seconds):
                raise _overran(f"did not end within {wall_seconds:.0f} seconds")
            answer: dict[str, Any] = json.loads(self._pipe.recv_bytes())  # no pickle: the child is not trusted
        except (EOFError, OSError, ValueError):
            self._child.join()
            raise _ReaderDiedError(f"ended with code {self._child.exitcode} and no answer") from None
        if answer.get("kind") == MemoryError.__name__:
            raise _ReaderDiedError("took more memory than is allowed")
        return answer

    def end(self) -> None:
        self._child.kill()
        self._child.join()
        self._child.close()
        self._pipe.close()


class _Readers:
    """Readers that wait for their next file."""

    def __init__(self) -> None:
        self._idle: list[_Reader] = []
        self._lock = threading.Lock()

    @contextmanager
    def one(self, memory: int, *, fresh: bool) -> Iterator[_Reader]:
        """A reader with this limit; it is ended if the block raises, else kept for later."""
        reader = (None if fresh else self._take(memory)) or _Reader(memory)
        try:
            yield reader
        except BaseException:
            reader.end()
            raise
        self._keep(reader)

    def _take(self, memory: int) -> _Reader | None:
        with self._lock:
            ours = (memory, os.getpid())  # a fork of this process has the list, but not the readers
            fit = next((reader for reader in self._idle if (reader.memory, reader.owner) == ours), None)
            if fit is not None:
                self._idle.remove(fit)
            return fit

    def _keep(self, reader: _Reader) -> None:
        # a slot of a worker leaves no process behind, see `_on_our_own`
        if reader.files < FILES and not multiprocessing.process.current_process().daemon:
            with self._lock:
                if len(self._idle) < IDLE:
                    self._idle.append(reader)
                    return
        reader.end()


_readers = _Readers()


def _ask(read: Read, path: Path, memory: int, cpu_seconds: int, wall_seconds: float) -> Any:
    for fresh in (False, True):
        with suppress(_ReaderDiedError), _readers.one(memory, fresh=fresh) as reader:
            first = reader.files == 0
            try:
                answer = reader.ask(read, path, cpu_seconds, wall_seconds)
            except _ReaderDiedError as died:
                if first:
                    raise _overran(died.words) from None
                raise
            return _found(answer)
    raise AssertionError("unreachable")


def _found(answer: dict[str, Any]) -> Any:
    if "found" in answer:
        return answer["found"]
    kind = getattr(errors, answer["kind"], InputError)
    raise kind(answer["what"], where=answer["where"], do=answer["do"])


def _overran(what: str) -> InputError:
    return InputError(
        f"The file cannot be trusted: the process that read it {what}.",
        where="the plate",
        do="Check the file in a player, and convert it with a tool that reads it.",
    )


def _serve(pipe: Connection, memory: int) -> None:
    """Runs in the child, until the parent closes the pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            read, path, cpu_seconds = pipe.recv()
        except (EOFError, OSError):
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = math.ceil(used.ru_utime + used.ru_stime) + cpu_seconds
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (until if hard == resource.RLIM_INFINITY else min(until, hard), hard))
        pipe.send_bytes(json.dumps(_answer(read, path)).encode())


def _answer(read: Read, path: Path) -> dict[str, object]:
    try:
        return {"found": read(path)}
    except FarmError as error:
        return {"kind": type(error).__name__, "what": error.what, "where": error.where, "do": error.do}
    except MemoryError:
        return {"kind": MemoryError.__name__}
    except Exception:
        os._exit(1)  # without a word: a traceback would name the file in the log
