"""Read files from outside in a process of its own, with limits on memory, processor time and waiting.

A file that makes the parser crash, hang or eat memory takes that process with it and nothing else. The processes are
forked from one that has the parser loaded already, so that a burst of submissions does not pay for that each time.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import multiprocessing.process
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
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

Read = Callable[[Path], Any]
"""Runs in the child; what it gives must be JSON."""


@cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["farm.media.probe", "farm.media.stills", "farm.media.sandbox"])
    return context


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


def _ask(read: Read, path: Path, memory: int, cpu_seconds: int, wall_seconds: float) -> Any:
    ours, theirs = _forks().Pipe(duplex=False)
    with _on_our_own():
        child = _forks().Process(target=_child, args=(theirs, memory, cpu_seconds, path.absolute(), read), daemon=True)
        child.start()
    theirs.close()
    try:
        if not ours.poll(wall_seconds):
            raise _overran(f"did not end within {wall_seconds:.0f} seconds")
        answer: dict[str, Any] = json.loads(ours.recv_bytes())  # bytes, not a pickle: the child is not trusted
    except (EOFError, ValueError):
        child.join()
        raise _overran(f"ended with code {child.exitcode} and no answer") from None
    finally:
        child.kill()
        child.join()
        child.close()
        ours.close()
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


def _child(out: Connection, memory: int, cpu_seconds: int, path: Path, read: Read) -> None:
    """Runs in the child."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer: dict[str, object] = {"found": read(path)}
    except FarmError as error:
        answer = {"kind": type(error).__name__, "what": error.what, "where": error.where, "do": error.do}
    except MemoryError:
        answer = {"kind": "InputError", "what": "Reading it takes more memory than is allowed.", "where": "", "do": ""}
    except Exception:
        os._exit(1)  # without a word: a traceback would name the file in the log
    out.send_bytes(json.dumps(answer).encode())
