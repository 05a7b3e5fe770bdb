"""A webhook reaches the host that it names and no host of the farm's own network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from farm.errors import PolicyError
from farm.webhook_post import WebhookPost, may_be_called


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True), ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False), ("10.0.0.8", False), ("172.16.3.4", False), ("192.168.1.1", False),
        ("169.254.169.254", False), ("0.0.0.0", False),  # noqa: S104
        ("100.64.0.1", False), ("224.0.0.1", False),
        ("::1", False), ("fe80::1%eth0", False), ("fc00::1", False), ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False), ("255.255.255.255", False),
    ],
)  # fmt: skip
def test_only_public_addresses_may_be_called(address: str, allowed: bool) -> None:
    assert may_be_called(address) is allowed


def test_a_name_with_one_private_address_is_refused() -> None:
    post = WebhookPost(private_hosts=False, resolve=lambda host, port: ["93.184.216.34", "10.0.0.8"])
    with pytest.raises(PolicyError, match="not on the public network"):
        post("https://h.example/x", b"{}", {})


class Receiver(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, str | None, bytes]] = []
        self.status = 204


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Host"], body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Nothing on the terminal."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("status", [204, 302, 500])
def test_the_body_goes_to_the_address_that_was_judged(receiver: Receiver, status: int) -> None:
    receiver.status = status
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    post = WebhookPost(private_hosts=True, resolve=resolve)
    url = f"http://h.example:{receiver.server_port}/in?a=1"
    assert post(url, b'{"a": 1}', {"Farm-Event": "job.state"}) == status, "a redirect is an answer, and not followed"
    assert receiver.got == [("/in?a=1", f"h.example:{receiver.server_port}", b'{"a": 1}')]
    assert asked == [("h.example", receiver.server_port)]
