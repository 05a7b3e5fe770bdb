"""Notices as clouds give them, from a metadata service of the test's own on the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from farm.worker.notice import AwsNotice, FileNotice, GcpNotice, NoNotice, make_notice, seconds_until

NOW = datetime(2026, 11, 30, 8, 20, tzinfo=UTC)


class Metadata(HTTPServer):
    """Answers with what `answers` holds by path; an AWS answer needs the token that was put."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, str] = {}
        self.token = "t1"
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Metadata

    def do_PUT(self) -> None:
        self.server.asked.append("token")
        self._answer(200, self.server.token)

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("/latest") and self.headers["X-aws-ec2-metadata-token"] != self.server.token:
            self._answer(401, "")
        elif self.path in self.server.answers:
            self._answer(200, self.server.answers[self.path])
        else:
            self._answer(404, "")

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    server = Metadata()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_aws_says_when_and_a_token_is_asked_for_once(metadata: Metadata) -> None:
    notice = AwsNotice(metadata.url, now=lambda: NOW)
    assert notice.seconds_left() is None
    action = {"action": "terminate", "time": "2026-11-30T08:22:00Z"}
    metadata.answers["/latest/meta-data/spot/instance-action"] = json.dumps(action)
    assert notice.seconds_left() == 120.0
    assert metadata.asked.count("token") == 1


def test_an_aws_token_that_is_refused_is_asked_for_anew(metadata: Metadata) -> None:
    notice = AwsNotice(metadata.url, now=lambda: NOW)
    assert notice.seconds_left() is None
    metadata.token = "t2"
    metadata.answers["/latest/meta-data/spot/instance-action"] = json.dumps({"time": "2026-11-30T08:21:00Z"})
    assert notice.seconds_left() is None
    assert notice.seconds_left() == 60.0


def test_google_says_that_it_is_preempted(metadata: Metadata) -> None:
    notice = GcpNotice(metadata.url)
    path = "/computeMetadata/v1/instance/preempted"
    metadata.answers[path] = "FALSE"
    assert notice.seconds_left() is None
    metadata.answers[path] = "TRUE"
    assert notice.seconds_left() == 30.0


def test_a_service_that_does_not_answer_is_left_alone_for_a_while(metadata: Metadata) -> None:
    now = [100.0]
    notice = GcpNotice(metadata.url, clock=lambda: now[0])
    assert notice.seconds_left() is None  # 404
    asked = len(metadata.asked)
    assert notice.seconds_left() is None
    assert len(metadata.asked) == asked
    now[0] += 31
    assert notice.seconds_left() is None
    assert len(metadata.asked) == asked + 1


def test_a_file_says_it(tmp_path: Path) -> None:
    path = tmp_path / "notice"
    notice = FileNotice(path, lambda: NOW)
    assert notice.seconds_left() is None
    path.write_text("45\n")
    assert notice.seconds_left() == 45.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2026-11-30T08:20:30Z", 30), ("2026-11-30T08:20:30", 30), ("2026-11-30T08:00:00Z", 0), ("now", 0), ("", 0)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert seconds_until(text, NOW) == seconds


def test_the_setting_chooses(tmp_path: Path) -> None:
    made = [make_notice(setting) for setting in (None, "aws", "gcp", str(tmp_path / "x"))]
    assert [type(notice) for notice in made] == [NoNotice, AwsNotice, GcpNotice, FileNotice]
    assert made[0].seconds_left() is None
