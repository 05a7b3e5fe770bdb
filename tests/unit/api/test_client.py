from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from farm.client import Client, FilePart, Multipart, error_of, read_server_sent
from farm.errors import (
    ConflictError,
    DiskFullError,
    FarmError,
    InfrastructureError,
    InputError,
    NotFoundError,
    PolicyError,
)


def test_a_multipart_body_has_the_length_it_says_and_can_be_read_twice(tmp_path: Path) -> None:
    plate = tmp_path / 'an "odd"\nname.mp4'
    plate.write_bytes(b"\r\n--boundary\r\n" * 5)
    body = Multipart({"options": '{"a": "é"}'}, [FilePart("plate", plate), FilePart("identity.x", plate)])
    first, second = b"".join(body.blocks()), b"".join(body.blocks())
    assert first == second
    assert len(first) == len(body)
    environ = EnvironBuilder(method="POST", input_stream=None, data=first, content_type=body.content_type).get_environ()
    request = Request(environ)
    assert request.form["options"] == '{"a": "é"}'
    assert request.files["plate"].read() == plate.read_bytes()
    assert request.files["identity.x"].read() == plate.read_bytes()
    request.close()
    assert b"odd" not in first, "no name of a file is sent"


def test_server_sent_events_are_read() -> None:
    text = ": hello\n\nretry: 2000\n\nid: 1\nevent: change\ndata: {\ndata: }\n\ndata: plain\n\nevent: end\ndata: {}\n\n"
    assert list(read_server_sent(iter(text.splitlines()))) == [
        ("change", "{\n}"),
        ("message", "plain"),
        ("end", "{}"),
    ]


def answer(status: int, body: bytes, content_type: str = "application/problem+json") -> requests.Response:
    made = requests.Response()
    made.status_code, made._content, made.reason = status, body, "Reason"
    made.headers["Content-Type"] = content_type
    return made


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InputError),
        (401, PolicyError),
        (403, PolicyError),
        (404, NotFoundError),
        (409, ConflictError),
        (413, InputError),
        (422, InputError),
        (500, InfrastructureError),
        (503, InfrastructureError),
        (507, DiskFullError),
    ],
)
def test_problems_become_the_farms_own_errors(status: int, kind: type[FarmError]) -> None:
    error = error_of(answer(status, b'{"detail": "It is so.", "where": "plate", "do": "Do that."}'))
    assert type(error) is kind
    assert str(error) == "plate: It is so. Do that."


def test_an_answer_that_is_no_problem_document_is_an_error_too() -> None:
    error = error_of(answer(502, b"<html>Bad Gateway</html>", "text/html"))
    assert isinstance(error, InfrastructureError)
    assert "502" in str(error)


class Flaky(Client):
    """A client whose network is a list of answers."""

    def __init__(self, *answers: requests.Response | Exception) -> None:
        self.pauses: list[float] = []
        super().__init__("http://farm.invalid", sleep=self.pauses.append)
        self._answers: Iterator[requests.Response | Exception] = iter(answers)
        self.sent: list[str | None] = []
        self._session.request = self._answer  # type: ignore[method-assign,assignment]

    def _answer(self, method: str, url: str, **options: object) -> requests.Response:
        headers = options.get("headers")
        self.sent.append(headers.get("Idempotency-Key") if isinstance(headers, dict) else None)
        found = next(self._answers)
        if isinstance(found, Exception):
            raise found
        return found


PAGE = answer(200, b'{"items": [], "next": null}', "application/json")


def test_a_farm_that_is_away_for_a_moment_is_asked_again() -> None:
    client = Flaky(requests.ConnectionError("refused"), answer(503, b"{}"), PAGE)
    assert client.jobs().items == []
    assert client.pauses == [1.0, 2.0]


def test_a_farm_that_stays_away_is_said_so() -> None:
    client = Flaky(*[requests.ConnectionError("refused")] * 4)
    with pytest.raises(InfrastructureError, match="does not answer"):
        client.jobs()


@pytest.mark.parametrize("status", [403, 404, 422, 507])
def test_a_refusal_is_not_asked_again(status: int) -> None:
    client = Flaky(answer(status, b'{"detail": "No."}'))
    with pytest.raises(FarmError, match="No"):
        client.jobs()
    assert client.pauses == []


def test_a_command_is_never_sent_twice() -> None:
    client = Flaky(answer(503, b"{}"), PAGE)
    with pytest.raises(InfrastructureError):
        client.command("j", "cancel")


def test_a_submission_is_sent_again_with_the_same_key() -> None:
    from farm.api.schemas import JobIn

    body = (
        b'{"id":"j","state":"queued","final":false,"recipe":"swap","priority":50,"created_at":"2026-01-01T00:00:00Z"}'
    )
    client = Flaky(requests.ConnectionError("reset"), answer(201, body, "application/json"))
    assert client.submit(JobIn(plate="s3://bucket/key")).id == "j"
    assert len(client.sent) == 2
    assert len(set(client.sent)) == 1
