"""A small client of the farm's API: what the `farm` command uses, and any other Python program may."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import requests
from urllib3.fields import RequestField

from farm.api.schemas import DEFAULT_LABEL, ChunkList, EventOut, JobIn, JobOut, JobPage, WorkerList
from farm.errors import (
    ConflictError,
    DiskFullError,
    FarmError,
    InfrastructureError,
    InputError,
    NotFoundError,
    PolicyError,
)

API = "/api/v1"
CONNECT_SECONDS = 5
READ_SECONDS = 120
_BLOCK = 1 << 20
_TRIES = 4

_BY_STATUS: Mapping[int, type[FarmError]] = {
    401: PolicyError,
    403: PolicyError,
    404: NotFoundError,
    409: ConflictError,
    503: InfrastructureError,
    507: DiskFullError,
}


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file of a multipart upload. Its name is not sent: the farm has no use for it."""

    name: str
    path: Path


class Multipart:
    """A multipart/form-data body that is read from disk while it is sent; may be sent again."""

    def __init__(self, fields: Mapping[str, str], files: Sequence[FilePart]) -> None:
        self.boundary = uuid.uuid4().hex
        self._heads: list[tuple[bytes, bytes | Path]] = []
        for name, value in fields.items():
            self._heads.append((self._head(name, None, "application/json"), value.encode()))
        for file in files:
            self._heads.append((self._head(file.name, "file", "application/octet-stream"), file.path))
        self._tail = f"--{self.boundary}--\r\n".encode()

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self.boundary}"

    def __len__(self) -> int:
        bodies = sum(len(body) if isinstance(body, bytes) else body.stat().st_size for _, body in self._heads)
        return sum(len(head) + 2 for head, _ in self._heads) + bodies + len(self._tail)

    def blocks(self) -> Iterator[bytes]:
        for head, body in self._heads:
            yield head
            if isinstance(body, bytes):
                yield body
            else:
                with body.open("rb") as source:
                    yield from _read_blocks(source)
            yield b"\r\n"
        yield self._tail

    def _head(self, name: str, filename: str | None, content_type: str) -> bytes:
        field = RequestField(name=name, data="", filename=filename)
        field.make_multipart(content_type=content_type)
        return f"--{self.boundary}\r\n{field.render_headers()}".encode()


class _SizedBody:
    """Lets `requests` send an iterator with a Content-Length instead of in chunks, and tells how far it is."""

    def __init__(self, body: Multipart, on_sent: Callable[[int], None]) -> None:
        self._size = len(body)
        self._blocks = body.blocks()
        self._on_sent = on_sent

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            yield block
            self._on_sent(len(block))


class Progressing(Protocol):
    """Called with the number of bytes that moved since the last call."""

    def __call__(self, moved: int, /) -> None: ...


def _ignore(moved: int) -> None:
    """Nobody wants to know."""


class Client:
    """Talks to one farm.

    Parameters
    ----------
    url: of the farm, without /api.
    token: sent as a bearer token where there is one.
    sleep: waits between tries; injected for tests.

    Errors are the farm's own (`farm.errors`), as the API named them; InfrastructureError where it does not answer.
    Calls that change nothing, and submissions (by their idempotency key), are tried again when the farm is away.
    """

    def __init__(self, url: str, token: str | None = None, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._session = requests.Session()
        self._session.trust_env = False
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self._session.close()

    def submit(
        self,
        options: JobIn,
        *,
        plate: Path | None = None,
        pictures: Mapping[str, Sequence[Path]] | None = None,
        idempotency_key: str | None = None,
        on_sent: Progressing = _ignore,
    ) -> JobOut:
        """Make a job. With `plate` its file is sent, and `pictures` by the label of their identity."""
        key = idempotency_key or uuid.uuid4().hex
        body = options.model_dump(mode="json", exclude_defaults=True)
        if plate is None:
            answer = self._call("POST", "/jobs", json=body, headers={"Idempotency-Key": key}, again=True)
            return JobOut.model_validate(answer.json())
        files = [FilePart("plate", plate)]
        for label, paths in (pictures or {}).items():
            name = "identity" if label == DEFAULT_LABEL else f"identity.{label}"
            files += [FilePart(name, path) for path in paths]
        multipart = Multipart({"options": json.dumps(body)}, files)

        def send() -> requests.Response:
            return self._once(
                "POST",
                "/jobs",
                data=_SizedBody(multipart, on_sent),
                headers={"Content-Type": multipart.content_type, "Idempotency-Key": key},
                timeout=(CONNECT_SECONDS, None),
            )

        return JobOut.model_validate(self._again(send).json())

    def job(self, job_id: str) -> JobOut:
        return JobOut.model_validate(self._call("GET", f"/jobs/{job_id}", again=True).json())

    def jobs(self, *, state: str | None = None, limit: int = 50, cursor: str | None = None) -> JobPage:
        query = {"state": state, "limit": limit, "cursor": cursor}
        return JobPage.model_validate(self._call("GET", "/jobs", params=query, again=True).json())

    def chunks(self, job_id: str) -> ChunkList:
        return ChunkList.model_validate(self._call("GET", f"/jobs/{job_id}/chunks", again=True).json())

    def workers(self) -> WorkerList:
        return WorkerList.model_validate(self._call("GET", "/workers", again=True).json())

    def command(self, job_id: str, command: str, reason: str = "") -> JobOut:
        """cancel, pause or resume a job, or requeue what failed of it."""
        return JobOut.model_validate(self._call("POST", f"/jobs/{job_id}/{command}", json={"reason": reason}).json())

    def operate(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One of the API's operations (`farm.api.operating`), by its path below /api/v1; its answer as plain data."""
        return self._call(method, path, json=body, again=method == "GET").json()

    def picture(self, path: str) -> bytes:
        """A picture that the API shows (a contact sheet, a cast member), by its path below /api/v1."""
        return self._call("GET", path, again=True).content

    def choose_mapping(self, job_id: str, mapping: Mapping[str, Any]) -> JobOut:
        """Decide who gets which identity, for a job that waits for it."""
        return JobOut.model_validate(self._call("POST", f"/jobs/{job_id}/mapping", json=mapping).json())

    def events(self, job_id: str, *, after: int = 0) -> Iterator[EventOut]:
        """Changes of a job as they happen, until it is final; broken streams are taken up where they ended."""
        failures = 0
        while True:
            try:
                with self._once(
                    "GET",
                    f"/jobs/{job_id}/events",
                    stream=True,
                    headers={"Last-Event-ID": str(after), "Accept": "text/event-stream"},
                    timeout=(CONNECT_SECONDS, 60),
                ) as answer:
                    for kind, data in read_server_sent(answer.iter_lines(decode_unicode=True)):
                        failures = 0
                        if kind == "end":
                            return
                        event = EventOut.model_validate_json(data)
                        after = event.id
                        yield event
            except (InfrastructureError, requests.RequestException) as error:
                failures += 1
                if failures >= _TRIES:
                    raise _away(self.url, error) from error
            self._sleep(min(0.5 * 2**failures, 5))

    def download(self, job_id: str, name: str, out: BinaryIO, *, on_received: Progressing = _ignore) -> int:
        """Write a deliverable to `out`; an answer that breaks off is taken up where it ended. Returns its bytes."""
        got, total, failures = 0, -1, 0
        while got != total:
            try:
                with self._once(
                    "GET",
                    f"/jobs/{job_id}/deliverables/{name}",
                    stream=True,
                    headers={"Range": f"bytes={got}-"} if got else {},
                ) as answer:
                    if got and answer.status_code != 206:
                        raise InfrastructureError("The farm cannot take up a download.", where=name, do="Try again.")
                    total = got + int(answer.headers["Content-Length"])
                    for block in answer.iter_content(_BLOCK):
                        out.write(block)
                        got += len(block)
                        failures = 0
                        on_received(len(block))
            except requests.RequestException as error:
                failures += 1
                if failures >= _TRIES:
                    raise _away(self.url, error) from error
                self._sleep(0.5 * 2**failures)
        return got

    def health(self) -> dict[str, Any]:
        """The farm's readiness, also where it is not ready."""
        with suppress(requests.RequestException):
            answer = self._session.get(f"{self.url}/readyz", timeout=(CONNECT_SECONDS, 10))
            return dict(answer.json())
        raise _away(self.url, None)

    def _call(self, method: str, path: str, *, again: bool = False, **options: Any) -> requests.Response:
        def send() -> requests.Response:
            return self._once(method, path, **options)

        return self._again(send) if again else send()

    def _again(self, send: Callable[[], requests.Response]) -> requests.Response:
        for attempt in range(1, _TRIES + 1):
            try:
                return send()
            except DiskFullError:
                raise
            except InfrastructureError:
                if attempt == _TRIES:
                    raise
                self._sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, **options: Any) -> requests.Response:
        options.setdefault("timeout", (CONNECT_SECONDS, READ_SECONDS))
        try:
            answer = self._session.request(method, f"{self.url}{API}{path}", **options)
        except requests.RequestException as error:
            raise _away(self.url, error) from error
        if answer.status_code >= 400:
            raise error_of(answer)
        return answer


def error_of(answer: requests.Response) -> FarmError:
    """The farm's error that a problem document speaks of."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    fields = "; ".join(f"{item['field']}: {item['message']}" for item in problem.get("errors", []))
    what = problem.get("detail") or f"The farm answered {answer.status_code} {answer.reason}."
    kind = _BY_STATUS.get(answer.status_code, InputError if answer.status_code < 500 else InfrastructureError)
    return kind(f"{what} {fields}".strip(), where=problem.get("where", ""), do=problem.get("do", ""))


def read_server_sent(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """(event, data) of each message of a server-sent event stream; comments and other fields are passed over."""
    kind, data = "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield kind, "\n".join(data)
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def _read_blocks(source: BinaryIO) -> Iterator[bytes]:
    while block := source.read(_BLOCK):
        yield block


def _away(url: str, error: Exception | None) -> InfrastructureError:
    why = f" ({type(error).__name__})" if error is not None else ""
    return InfrastructureError(
        f"The farm does not answer{why}.", where=url, do="See that it runs: farm doctor; start one with: farm up."
    )
