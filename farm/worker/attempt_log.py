"""The log of one attempt: kept under a key of its own, bounded in size, readable while the attempt runs.

Lines go into a file on this machine first, so that a process that dies leaves its last words; they are sent to the
store as they come, by a thread that the task never waits for. What a process left behind is sent by the worker's
program, which outlives it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from farm.errors import FarmError
from farm.log import line_formatter, scrubbed
from farm.store import keys
from farm.store.base import Store
from farm.worker.scratch import process_name

log = structlog.get_logger(__name__)

HEAD_BYTES = 768 * 1024
TAIL_BYTES = 256 * 1024
"""A log keeps its first and its last lines; what is between is counted and left out."""
LINE_CHARACTERS = 16_384
SEND_SECONDS = 2.0
CONTENT_TYPE = "text/plain; charset=utf-8"

_SUFFIX = ".log"
_FATAL = re.compile(r"^(Fatal Python error: [^\n]+|Windows fatal exception: [^\n]+)", re.MULTILINE)
_FRAME = re.compile(r'File "[^"]*?((?:farm|site-packages)/[^"]+)", line (\d+) in (\w+)')


@dataclass(frozen=True, slots=True)
class LogKey:
    """Whose log it is."""

    job_id: str
    task_id: str
    attempt_id: str

    @property
    def object_key(self) -> str:
        return keys.attempt_log(self.job_id, self.task_id, self.attempt_id)


class AttemptLogs:
    """The logs of this machine's attempts, as files in `folder` on their way to the store."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def keeping(self, key: LogKey) -> Iterator[AttemptLog]:
        """Write every log line of this process into the attempt's log while the block runs."""
        path = self._folder / f"{process_name(os.getpid())}.{key.job_id}.{key.task_id}.{key.attempt_id}{_SUFFIX}"
        made = AttemptLog(path, key, self._store)
        try:
            with made:
                yield made
        finally:
            if made.sent:
                path.unlink(missing_ok=True)

    def left_behind(self) -> Iterator[tuple[LogKey, str]]:
        """Send what dead processes left to the store: whose it is, and what it says of their end ("" for nothing).

        A store that is away leaves the file for later.
        """
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            process, job_id, task_id, attempt_id = path.name.removesuffix(_SUFFIX).split(".")
            pid = int(process.partition("-")[0])
            if process == process_name(pid):
                continue
            key = LogKey(job_id, task_id, attempt_id)
            try:
                text = path.read_bytes().decode(errors="replace")
                self._store.put_bytes(key.object_key, bounded(text), content_type=CONTENT_TYPE)
            except (FarmError, OSError) as error:
                log.warning("a dead process's log could not be sent", error=type(error).__name__)
                continue
            path.unlink(missing_ok=True)
            yield key, last_words(text)


class AttemptLog:
    """One attempt's log while it is written. `sent`: all of it is in the store."""

    def __init__(self, path: Path, key: LogKey, store: Store) -> None:
        self._path = path
        self._key = key
        self._store = store
        self._file = path.open("w", encoding="utf-8")
        self._handler = _Handler(self._take)
        self._lock = threading.Lock()
        self._written = 0
        self._tail: deque[str] = deque()
        self._tail_bytes = 0
        self._left_out = 0
        self._new = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="attempt-log", daemon=True)
        self.sent = False

    def __enter__(self) -> AttemptLog:
        logging.getLogger().addHandler(self._handler)
        faulthandler.enable(self._file)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self._handler)
        faulthandler.disable()
        self._ended.set()
        self._new.set()
        self._thread.join()
        with self._lock:
            self._end_file()
        self.send()

    def send(self) -> None:
        """Put what is there into the store; a store that is away is tried again with the next lines."""
        with self._lock:
            self._new.clear()
            if not self._file.closed:
                self._file.flush()
        try:
            self._store.put_file(self._key.object_key, self._path, content_type=CONTENT_TYPE)
            self.sent = not self._new.is_set()
        except (FarmError, OSError) as error:
            self.sent = False
            log.debug("an attempt's log could not be sent", error=type(error).__name__)

    def _take(self, line: str) -> None:
        """Append a line: to the file while there is room, else to the last lines, which are written at the end."""
        size = len(line.encode()) + 1
        with self._lock:
            if self._file.closed:
                return
            if not self._tail and self._written + size <= HEAD_BYTES:
                self._file.write(f"{line}\n")
                self._file.flush()
                self._written += size
                self._new.set()
                return
            self._tail.append(line)
            self._tail_bytes += size
            while self._tail_bytes > TAIL_BYTES:
                self._tail_bytes -= len(self._tail.popleft().encode()) + 1
                self._left_out += 1

    def _end_file(self) -> None:
        if self._left_out:
            self._file.write(f"[{self._left_out} lines left out]\n")
        self._file.writelines(f"{line}\n" for line in self._tail)
        self._file.close()

    def _run(self) -> None:
        while not self._ended.wait(SEND_SECONDS):
            if self._new.is_set():
                self.send()


class _Handler(logging.Handler):
    """Hands each record on as a plain line without anything private."""

    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._take = take
        self.setFormatter(line_formatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = scrubbed(self.format(record)[:LINE_CHARACTERS])
        except Exception:
            self.handleError(record)
            return
        self._take(line)


def bounded(text: str) -> bytes:
    """At most HEAD_BYTES + TAIL_BYTES of it, from both ends."""
    data = text.encode()
    if len(data) <= HEAD_BYTES + TAIL_BYTES:
        return scrubbed(text).encode()
    head, tail = (part.decode(errors="ignore") for part in (data[:HEAD_BYTES], data[-TAIL_BYTES:]))
    return scrubbed(f"{head}\n[lines left out]\n{tail}").encode()


def last_words(text: str) -> str:
    """What a log says of its process's end: the crash and where it was, or its last line."""
    text = scrubbed(text)
    fatal = _FATAL.search(text)
    if fatal is None:
        lines = [line for line in text.splitlines() if line.strip()]
        return f"Its last words: {lines[-1][-300:]}" if lines else ""
    frame = _FRAME.search(text, fatal.end())
    return fatal[1] + (f" in {frame[1]}:{frame[2]} ({frame[3]})" if frame else "")


def cause_of(error: BaseException) -> str:
    """Which error it was at the bottom, and the innermost place in the farm's own code."""
    while error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        error = error.__cause__ or error.__context__ or error
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/farm/" in frame.filename] or list(frames)
    where = f" in {scrubbed(own[-1].filename)}:{own[-1].lineno} ({own[-1].name})" if own else ""
    text = scrubbed(str(error)).splitlines()
    return f"{type(error).__name__}{where}" + (f": {text[0][:300]}" if text else "")
