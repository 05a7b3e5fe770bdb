"""The ffmpeg program that comes with imageio-ffmpeg: started with argument lists, never by a shell."""

from __future__ import annotations

import contextlib
import fcntl
import io
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

import imageio_ffmpeg
import psutil

from farm.errors import FarmError, InfrastructureError

_TAIL_LINES = 12
_LONGEST_LINE = 400
_PIPE_BYTES = 1 << 20
"""How much may lie in the pipe to the program, where the system lets us say: fewer changes between the two."""
STALL_SECONDS = 120.0
"""How long the program may neither read nor write a byte before it counts as hung."""

Feed = Callable[[IO[bytes]], None]
"""Writes to the program's standard input, and returns when all is written."""


@lru_cache(maxsize=1)
def program() -> str:
    """Path of the bundled ffmpeg; InfrastructureError where there is none for this platform."""
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise InfrastructureError(
            "There is no ffmpeg program.", where="imageio-ffmpeg", do="Install the wheel for this platform."
        ) from error


class Tail:
    """Drains a program's standard error in a thread and keeps its last lines."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        self._stream = stream
        self._thread = threading.Thread(target=self._drain, name="ffmpeg-stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        # read1 rather than lines: a program that writes no newline must not fill memory.
        rest = b""
        while block := self._stream.read1(1 << 16):  # type: ignore[attr-defined]
            *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
            rest = rest[-_LONGEST_LINE:]
            for line in lines:
                if line.strip():
                    self._lines.append(line[-_LONGEST_LINE:].decode(errors="replace").strip())
        if rest.strip():
            self._lines.append(rest.decode(errors="replace").strip())

    def text(self) -> str:
        self._thread.join()
        return " | ".join(self._lines)


class _Watch:
    """Kills a program that stands still: a disk or share that does not answer must not hold a worker for ever.

    Bytes read and written are what counts: processor time would pass a program that spins. Systems that do not count
    them (macOS) go without the watch.
    """

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.stalled = False
        self._process = process
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ffmpeg-watch", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with contextlib.suppress(psutil.Error, AttributeError):
            known = psutil.Process(self._process.pid)
            before = None
            while not self._ended.wait(self._seconds):
                counters = known.io_counters()
                moved = counters.read_chars, counters.write_chars
                if moved == before:
                    self.stalled = True
                    self._process.kill()
                    return
                before = moved

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


class Program:
    """The program while it runs, for streams: its ends of the pipes, and its last words when it is over.

    `arguments` go without the program's own name. `stdin` and `stdout` say which of the two is a pipe; both are
    unbuffered, so that a picture that was written has gone. Leaving the block ends the program.
    """

    def __init__(self, arguments: Sequence[str], *, stdin: bool = False, stdout: bool = False) -> None:
        self._process = subprocess.Popen(
            _command(arguments),
            bufsize=0,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # ctrl-C is for the farm, which then ends the program in order
        )
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        self._tail = Tail(_buffered(self._process.stderr))

    @property
    def stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None  # noqa: S101 - asked for by whoever writes
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None  # noqa: S101 - asked for by whoever reads
        return self._process.stdout

    def finish(self, seconds: float) -> tuple[int, str]:
        """Close its input, give it `seconds` to come to its end, and say its exit code and last words."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return code, self._tail.text()

    def kill(self) -> None:
        """End it now, and leave no pipe behind."""
        _end(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _command(arguments: Sequence[str]) -> list[str]:
    return [program(), "-hide_banner", "-nostats", "-loglevel", "warning", *arguments]


def _buffered(stream: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(cast(io.RawIOBase, stream))


def run(
    arguments: Sequence[str],
    *,
    where: str,
    feed: Feed | None = None,
    hide: Sequence[Path] = (),
    stall_seconds: float = STALL_SECONDS,
) -> str:
    """Run the program to its end; the last lines that it wrote to standard error.

    `arguments` go without the program's own name. `feed` writes its standard input from this thread; when it raises,
    the program is killed. `hide` are paths that must not be named in errors. Raises FarmError with the program's last
    words when it fails, InfrastructureError when it did nothing for one to two times `stall_seconds`.
    """
    stdin = subprocess.PIPE if feed is not None else subprocess.DEVNULL
    process = subprocess.Popen(_command(arguments), stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None  # noqa: S101 - it was asked for
    tail, watch = Tail(process.stderr), _Watch(process, stall_seconds)
    try:
        broken = not _fed(process, feed)
        code = process.wait()
        words = tail.text()
    finally:
        watch.end()
        _end(process)
    if watch.stalled:
        raise InfrastructureError(
            f"ffmpeg neither read nor wrote anything for {stall_seconds:.0f} seconds, and was ended.",
            where=where,
            do="Check the disk or the network share of the scratch folder and of the plate.",
        )
    for path in hide:
        words = words.replace(str(path), "…")
    if code != 0 or broken:
        raise _failed(code, words, where)
    return words


def _fed(process: subprocess.Popen[bytes], feed: Feed | None) -> bool:
    """Write the program's input; False where it ended before it had read all: what it said is the better reason."""
    if feed is None or process.stdin is None:
        return True
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    try:
        feed(process.stdin)
        process.stdin.close()
    except BrokenPipeError:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no program and no pipe behind, whatever happened."""
    if process.poll() is None:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _failed(code: int, words: str, where: str) -> FarmError:
    if "No space left on device" in words:
        return InfrastructureError("The disk is full.", where=where, do="Free space in the scratch folder.")
    return FarmError(f"ffmpeg ended with code {code}: {words or 'it said nothing'}.", where=where)
