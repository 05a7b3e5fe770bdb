"""A network that parts: bytes are passed on between two sockets, held back for a while, or lost with their lines."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Address = Path | tuple[str, int]
"""Of a Unix socket or a TCP server."""
_BLOCK = 1 << 16


class Relay:
    """Listens at `at` and passes what comes on to `target`, both ways, while the network is whole.

    While it is parted nothing passes, in either direction, and nobody is told: new lines are taken and stay silent.
    """

    def __init__(self, at: Address, target: Address) -> None:
        self._target = target
        self._whole = threading.Event()
        self._whole.set()
        self._closed = False
        self._lines: set[socket.socket] = set()
        self._server = _socket(at)
        if isinstance(at, Path):
            self._server.bind(str(at))
            at.chmod(0o777)
        else:
            self._server.bind(at)
        self._server.listen(128)
        self._thread = threading.Thread(target=self._accept, name="relay", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def part(self) -> None:
        self._whole.clear()

    def heal(self, *, cut: bool) -> None:
        """Let everything pass again. cut: the lines of before are gone, else what was held back arrives late."""
        if cut:
            for line in list(self._lines):
                _end(line)
        self._whole.set()

    def close(self) -> None:
        self._closed = True
        _end(self._server)
        self.heal(cut=True)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._lines.add(near)
        self._whole.wait()
        far = _socket(self._target)
        try:
            far.connect(str(self._target) if isinstance(self._target, Path) else self._target)
        except OSError:
            self._drop(near, far)
            return
        self._lines.add(far)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BLOCK):
                self._whole.wait()
                sink.sendall(data)
        self._drop(source, sink)

    def _drop(self, *lines: socket.socket) -> None:
        for line in lines:
            self._lines.discard(line)
            _end(line)


def _socket(address: Address) -> socket.socket:
    return socket.socket(socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET, socket.SOCK_STREAM)


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@contextmanager
def relay(at: Address, target: Address) -> Iterator[Relay]:
    made = Relay(at, target)
    try:
        yield made
    finally:
        made.close()
