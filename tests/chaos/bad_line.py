"""A bad line to an S3 server: a proxy whose answers fail by chance, as a rate and a seed say."""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BUSY, BROKEN, RESET, LOST, TRUNCATED, ABSENT, SLOW = (
    "503", "500", "reset", "answer lost", "truncated", "404 after write", "slow",
)  # fmt: skip
KINDS = (BUSY, BROKEN, RESET, LOST, TRUNCATED, ABSENT, SLOW)
_FRESH_SECONDS = 3.0
_HOPS = {"connection", "keep-alive", "transfer-encoding", "expect", "te", "upgrade", "proxy-connection"}


@dataclass(slots=True)
class Trouble:
    """What is wrong with the line: a share of the requests meets the `kind`; `most` bounds how many do in all."""

    kind: str
    share: float
    seed: int
    most: int = 40
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)


class BadLine(ThreadingHTTPServer):
    """Passes requests on to the server at `target`, with or without trouble.

    Attributes
    ----------
    trouble: what is wrong now, or None.
    met: how often each kind has been met.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        parts = urlsplit(target)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.trouble: Trouble | None = None
        self.met: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._written: dict[str, float] = {}

    def handle_error(self, request: object, client_address: object) -> None:
        """Killed clients are what this server is for."""

    def note_write(self, path: str) -> None:
        self._written[path] = time.monotonic()

    def throw(self, method: str, path: str) -> str:
        """The kind of trouble that this request meets, or "" """
        trouble = self.trouble
        if trouble is None:
            return ""
        with self._lock:
            if trouble.most <= 0 or trouble.dice.random() >= trouble.share or not self._may_meet(trouble, method, path):
                return ""
            trouble.most -= 1
            self.met[trouble.kind] += 1
        return trouble.kind

    def _may_meet(self, trouble: Trouble, method: str, path: str) -> bool:
        if trouble.kind == ABSENT:
            fresh = time.monotonic() - self._written.get(path, float("-inf")) < _FRESH_SECONDS
            return method in ("GET", "HEAD") and fresh
        return trouble.kind != TRUNCATED or method == "GET"


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BadLine

    def log_message(self, *args: object) -> None:
        """Silent: the scenarios say what they did."""

    def _handle(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        fate = self.server.throw(self.command, path)
        if fate in (BUSY, BROKEN):
            self._answer(int(fate), {}, b"")
            return
        if fate == RESET:
            self._reset()
            return
        if fate == ABSENT:
            self._answer(404, {"Content-Type": "application/xml"}, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        if fate == SLOW:
            time.sleep(2)
        status, headers, answer = self._forward(body)
        if self.command == "PUT" and status == 200:
            self.server.note_write(path)
        if fate == LOST:
            self._reset()
        elif fate == TRUNCATED and len(answer) > 1:
            self._answer(status, headers, answer, cut=len(answer) // 2)
        else:
            self._answer(status, headers, answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
        try:
            kept = {name: value for name, value in self.headers.items() if name.lower() not in _HOPS}
            kept["Content-Length"] = str(len(body))
            connection.request(self.command, self.path, body, kept)
            answer = connection.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOPS}
            return answer.status, headers, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, cut: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        if status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.wfile.flush()
            self._reset()

    def _reset(self) -> None:
        """Close as a line does that breaks: the peer gets RST."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD)
            self.connection.close()


@contextmanager
def bad_line(target: str) -> Iterator[BadLine]:
    with BadLine(target) as line:
        thread = threading.Thread(target=line.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield line
        finally:
            line.shutdown()
            thread.join()
