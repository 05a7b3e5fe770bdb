"""Pulling weights from real HTTP servers on the loopback, from folders, and from the farm's own store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from farm.errors import InfrastructureError, InputError, PolicyError
from farm.inference.catalogue import Catalogue
from farm.inference.integrity import sha256_of
from farm.inference.library import ModelLibrary
from farm.inference.pull import Puller, Retries
from farm.store.memory import MemoryStore

BODY = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(BODY).hexdigest()

ENTRY = """
name = "toy"
title = "A toy"
task = "upscaler"
[licence]
id = "MIT"
class = "permissive"
url = "https://example.org/licence"
[files.fp32]
file = "toy.onnx"
{pin}
{sources}
[[inputs]]
name = "x"
shape = [1]
kind = "other"
[[outputs]]
name = "y"
shape = [1]
kind = "other"
[runtime]
memory_mib = 1
"""


@dataclass
class Host:
    """What the server does with each request, and what it was asked."""

    body: bytes = BODY
    resumes: bool = True
    cut_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    address: str = ""


@contextmanager
def serving(host: Host) -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            host.ranges.append(wanted)
            status = host.statuses.pop(0) if host.statuses else 200
            if status != 200 or not self.path.endswith("toy.onnx"):
                self.send_error(status if status != 200 else 404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and host.resumes else 0
            if start >= len(host.body):
                self.send_error(416)
                return
            rest = host.body[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest[: host.cut_after.pop(0)] if host.cut_after else rest)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    host.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def library(folder: Path, *, sources: list[str] | None = None, pinned: bool = True, **more: object) -> ModelLibrary:
    pin = f'sha256 = "{DIGEST}"\nsize = {len(BODY)}' if pinned else ""
    text = ENTRY.format(pin=pin, sources=f"sources = {sources}" if sources else "")
    catalogue = folder / "catalogue"
    catalogue.mkdir(exist_ok=True)
    (catalogue / "toy.toml").write_text(text.replace("'", '"'))
    return ModelLibrary(Catalogue.read(catalogue), folder / "home", **more)  # type: ignore[arg-type]


def puller(store: ModelLibrary, waits: list[float] | None = None, **more: object) -> Puller:
    record = waits if waits is not None else []
    return Puller(store, retries=Retries(sleep=record.append), **more)  # type: ignore[arg-type]


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "home" / "weights").iterdir() if path.suffix != ".lock")


def test_a_pull_puts_the_checked_file_in_its_place_and_tells_how_far_it_is(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with serving(Host()) as host:
        path = puller(library(tmp_path, sources=[f"{host.address}/toy.onnx"])).pull(
            "toy", progress=lambda done, whole: seen.append((done, whole))
        )
    assert path.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert leftovers(tmp_path) == [f"{DIGEST}.onnx"]


def test_a_pull_that_is_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    waits: list[float] = []
    with serving(Host(cut_after=[1000, 50000])) as host:
        puller(library(tmp_path, sources=[f"{host.address}/toy.onnx"]), waits).pull("toy")
    assert host.ranges == [None, "bytes=1000-", "bytes=51000-"]
    assert waits == [1.0, 2.0]


def test_a_half_file_of_an_earlier_run_is_resumed(tmp_path: Path) -> None:
    place = library(tmp_path)
    part = tmp_path / "home" / "weights" / f"{DIGEST}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY[:777])
    with serving(Host()) as host:
        puller(place, origins=[host.address]).pull("toy")
    assert host.ranges == ["bytes=777-"]
    assert leftovers(tmp_path) == [f"{DIGEST}.onnx"]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_half_file_with_other_bytes_is_thrown_away_and_pulled_whole(tmp_path: Path, resumes: bool) -> None:
    place = library(tmp_path)
    part = tmp_path / "home" / "weights" / f"{DIGEST}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\xff" * 777)
    with serving(Host(resumes=resumes)) as host:
        assert puller(place, origins=[host.address]).pull("toy").read_bytes() == BODY
    assert host.ranges == (["bytes=777-", None] if resumes else ["bytes=777-"])


def test_busy_servers_are_asked_again(tmp_path: Path) -> None:
    with serving(Host(statuses=[503, 429])) as host:
        puller(library(tmp_path, sources=[f"{host.address}/toy.onnx"])).pull("toy")
    assert len(host.ranges) == 3


def test_the_next_source_serves_where_the_first_has_other_bytes(tmp_path: Path) -> None:
    with serving(Host(body=b"\x00" * len(BODY))) as wrong, serving(Host()) as right:
        path = puller(library(tmp_path, sources=[f"{right.address}/toy.onnx"]), origins=[wrong.address]).pull("toy")
    assert sha256_of(path) == DIGEST


@pytest.mark.parametrize(
    ("body", "says"),
    [(b"\x00" * len(BODY), "its sha256 is"), (BODY + b"more", "the catalogue says"), (BODY[:-1], "the catalogue says")],
)
def test_wrong_bytes_are_neither_kept_nor_run(tmp_path: Path, body: bytes, says: str) -> None:
    with serving(Host(body=body)) as host, pytest.raises(InfrastructureError, match=says):
        puller(library(tmp_path, sources=[f"{host.address}/toy.onnx"])).pull("toy")
    assert leftovers(tmp_path) == []


def test_a_source_that_is_gone_is_named_with_its_answer(tmp_path: Path) -> None:
    with serving(Host(statuses=[404])) as host, pytest.raises(InfrastructureError, match="answered 404"):
        puller(library(tmp_path, sources=[f"{host.address}/toy.onnx"])).pull("toy")


def test_a_file_without_a_known_checksum_is_not_pulled(tmp_path: Path) -> None:
    place = library(tmp_path, sources=["http://127.0.0.1:1/toy.onnx"], pinned=False)
    with pytest.raises(PolicyError, match="knows no checksum"):
        puller(place).pull("toy")


@pytest.mark.parametrize("named", ["toy.onnx", DIGEST])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_serves_without_network(tmp_path: Path, named: str, scheme: str) -> None:
    folder = tmp_path / "a mirror"
    folder.mkdir()
    (folder / named).write_bytes(BODY)
    address = folder.as_uri() if scheme else str(folder)
    assert puller(library(tmp_path), origins=[address], upstream=False).pull("toy").read_bytes() == BODY
    assert (folder / named).exists(), "a mirror is only read"


def test_nothing_to_pull_from_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"with sha256 {DIGEST} and run: farm models pull toy --from FOLDER"):
        puller(library(tmp_path)).pull("toy")


def test_weights_that_are_here_are_not_asked_for_again(tmp_path: Path) -> None:
    with serving(Host()) as host:
        place = library(tmp_path, sources=[f"{host.address}/toy.onnx"])
        puller(place).pull("toy")
        puller(place).pull("toy")
    assert len(host.ranges) == 1
    assert place.remove("toy")
    assert place.present("toy") is None


def test_one_worker_pulls_and_the_others_take_it_from_the_store(tmp_path: Path) -> None:
    shelf = MemoryStore()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with serving(Host()) as host:
        first = library(tmp_path / "one", sources=[f"{host.address}/toy.onnx"], shelf=shelf)
        puller(first).pull("toy")
        assert first.share("toy")
        assert not first.share("toy"), "it is there already"
    second = library(tmp_path / "two", shelf=shelf)
    assert second.path("toy").read_bytes() == BODY
    assert len(host.ranges) == 1


def test_a_shelf_that_holds_other_bytes_is_not_trusted(tmp_path: Path) -> None:
    shelf = MemoryStore()
    shelf.put_bytes(f"models/{DIGEST}", b"something else")
    with pytest.raises(InputError, match="they are not used"):
        library(tmp_path, shelf=shelf).path("toy")
