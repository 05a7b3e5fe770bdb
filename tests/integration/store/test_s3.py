"""What only the S3 store promises, against real servers."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from farm.errors import InfrastructureError, NotFoundError
from farm.store import keys
from farm.store.s3 import S3Store, connect
from tests.chaos.bad_line import ABSENT, Trouble, bad_line
from tests.integration.store.conftest import PART, s3_store
from tests.services import CREDENTIALS, free_port


def test_the_prefix_stays_inside(s3: S3Store) -> None:
    s3.put_bytes("a", b"x")
    listed = s3._client.list_objects_v2(Bucket=s3.bucket)
    assert [item["Key"] for item in listed["Contents"]] == ["some/prefix/a"]
    assert [info.key for info in s3.list("")] == ["a"]


def test_a_signed_link_gives_the_object_under_the_wanted_name(s3: S3Store) -> None:
    s3.put_bytes("a", b"0123456789", content_type="video/mp4")
    url = s3.signed_url("a", expires=timedelta(minutes=1), filename="Zürich.mp4")
    answer = requests.get(url, headers={"Range": "bytes=2-4"}, timeout=10)
    assert (answer.status_code, answer.content) == (206, b"234")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''Z%C3%BCrich.mp4"
    assert answer.headers["Content-Type"] == "video/mp4"


def test_a_changed_or_expired_link_is_refused(ministack_url: str) -> None:
    store = s3_store(ministack_url)  # the server that checks
    store.put_bytes("a", b"x")
    store.put_bytes("b", b"x")
    url = store.signed_url("a", expires=timedelta(minutes=1))
    assert requests.get(url.replace("/prefix/a?", "/prefix/b?"), timeout=10).status_code == 403
    old = store._client.generate_presigned_url(
        "get_object", Params={"Bucket": store.bucket, "Key": "some/prefix/a"}, ExpiresIn=-1
    )
    assert requests.get(old, timeout=10).status_code in (400, 403)


def test_a_damaged_object_is_never_handed_out_as_good(s3: S3Store, tmp_path: Path) -> None:
    s3._client.put_object(Bucket=s3.bucket, Key="some/prefix/a", Body=b"damaged", Metadata={"sha256": "0" * 64})
    with pytest.raises(InfrastructureError, match="sha256"):
        s3.get_bytes("a")
    with pytest.raises(InfrastructureError, match="sha256"):
        s3.get_file("a", tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_an_object_of_somebody_else_has_no_sha256_and_is_read_all_the_same(s3: S3Store, tmp_path: Path) -> None:
    s3._client.put_object(Bucket=s3.bucket, Key="some/prefix/My film.mov", Body=b"film")
    assert s3.get_file("My film.mov", tmp_path / "target").sha256 == ""
    assert (tmp_path / "target").read_bytes() == b"film"


def test_unfinished_uploads_are_dropped_when_stale(ministack_url: str) -> None:
    store = s3_store(ministack_url)  # moto says that every upload began in 2010
    for key in ("some/prefix/a", "elsewhere/b"):
        store._client.create_multipart_upload(Bucket=store.bucket, Key=key)
    assert store.abort_stale_uploads(older_than=timedelta(hours=1)) == 0
    assert store.abort_stale_uploads(older_than=timedelta(hours=-1)) == 1
    left = store._client.list_multipart_uploads(Bucket=store.bucket)["Uploads"]
    assert [upload["Key"] for upload in left] == ["elsewhere/b"]


def test_a_replaced_object_is_not_mixed_with_the_old_one(s3: S3Store) -> None:
    s3.put_bytes("a", b"1" * 1_000_000)
    with s3.open("a") as stream:
        s3.put_bytes("a", b"2" * 1_000_000)
        stream.raw._body.close()
        stream.raw._body = _Broken()
        with pytest.raises(InfrastructureError, match="replaced"):
            stream.read()


class _Broken:
    def read(self, size: int) -> bytes:
        raise ConnectionResetError

    def close(self) -> None:
        pass


def test_no_bucket_and_no_server_are_named(moto_url: str) -> None:
    login = {"region": "us-east-1", "access_key": CREDENTIALS[0], "secret_key": CREDENTIALS[1], "path_style": True}
    store = S3Store(connect(endpoint=moto_url, **login), "no-such-bucket")
    with pytest.raises(InfrastructureError, match="s3://no-such-bucket: The bucket does not exist"):
        store.put_bytes("a", b"x")
    nobody = S3Store(connect(endpoint=f"http://127.0.0.1:{free_port()}", retries=1, **login), "bucket")
    with pytest.raises(InfrastructureError, match="EndpointConnectionError"):
        nobody.head("a")


class Cutter(socketserver.ThreadingTCPServer):
    """A proxy that breaks some connections off in the middle of the answer.

    Parameters
    ----------
    target: URL of the real server.

    Attributes
    ----------
    cuts: after how many bytes of the answer each of the next connections breaks; later ones do not.
    busy: how many of the next connections get 503 from nobody but the proxy.
    """

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        parts = urlsplit(target)
        self.target = (parts.hostname, parts.port)
        self.cuts: list[int] = []
        self.busy = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Relay(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        if self.server.busy:
            self.server.busy -= 1
            self.request.recv(65536)
            self.request.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        limit = self.server.cuts.pop(0) if self.server.cuts else None
        with socket.create_connection(self.server.target) as server:
            asking = threading.Thread(target=_pump, args=(self.request, server, None))
            asking.start()
            _pump(server, self.request, limit)
            asking.join()


def _pump(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    """Copy until the source ends or the limit is reached; then both sockets are shut down."""
    sent = 0
    with suppress(OSError):
        while (data := source.recv(8192)) and (limit is None or sent + len(data) <= limit):
            target.sendall(data)
            sent += len(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cut(moto_url: str) -> Iterator[Cutter]:
    with Cutter(moto_url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


@pytest.fixture
def through(cut: Cutter, moto_url: str) -> Iterator[S3Store]:
    """A store whose every connection goes through the cutter."""
    direct = s3_store(moto_url)
    client = connect(
        endpoint=cut.url, region="us-east-1", access_key=CREDENTIALS[0], secret_key=CREDENTIALS[1], path_style=True
    )
    yield S3Store(client, direct.bucket, direct.prefix, part_bytes=PART)
    client.close()


def test_a_stream_that_breaks_off_goes_on_where_it_stopped(through: S3Store, cut: Cutter) -> None:
    data = bytes(range(256)) * 8192
    through.put_bytes(keys.plate(1), data)
    through._client.close()
    cut.cuts[:] = [300_000, 500_000]
    with through.open(keys.plate(1), start=1) as stream:
        assert stream.read() == data[1:]
    assert cut.cuts == []


def test_a_stream_that_always_breaks_off_gives_up(through: S3Store, cut: Cutter) -> None:
    through.put_bytes(keys.plate(1), b"x" * 2_000_000)
    through._client.close()
    cut.cuts[:] = [20_000] + [0] * 200
    with pytest.raises(InfrastructureError), through.open(keys.plate(1)) as stream:
        stream.read()


def test_a_busy_server_is_asked_again(through: S3Store, cut: Cutter) -> None:
    cut.busy = 2
    through.put_bytes(keys.plate(1), b"x")
    through._client.close()
    cut.busy = 2
    assert through.get_bytes(keys.plate(1)) == b"x"
    assert cut.busy == 0


@pytest.mark.parametrize("times", [1, 3])
def test_an_object_that_is_not_seen_at_once_is_waited_for(moto_url: str, tmp_path: Path, times: int) -> None:
    """Found by fault injection: a job failed for a segment that its plan had stored a moment before."""
    slept: list[float] = []
    direct = s3_store(moto_url)
    with bad_line(moto_url) as line:
        client = connect(
            endpoint=line.url, region="us-east-1", access_key=CREDENTIALS[0], secret_key=CREDENTIALS[1], path_style=True
        )
        store = S3Store(client, direct.bucket, direct.prefix, patience=(0.5, 1.0, 2.0), sleep=slept.append)
        store.put_bytes("a", b"text")
        line.trouble = Trouble(ABSENT, share=1.0, seed=1, most=times)
        assert store.get_bytes("a") == b"text"
        assert slept == [0.5, 1.0, 2.0][:times]
        line.trouble = Trouble(ABSENT, share=1.0, seed=1, most=times)
        assert store.get_file("a", tmp_path / "a").size == 4
        with pytest.raises(NotFoundError):
            store.get_bytes("never stored")
        client.close()


def test_a_multipart_upload_over_a_bad_line_arrives(through: S3Store, cut: Cutter, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * (3 * PART // 256) + b"end")
    cut.cuts[:] = [0, 0]
    put = through.put_file(keys.plate(1), source)
    cut.cuts[:] = [0]
    through.get_file(keys.plate(1), target)
    assert target.read_bytes() == source.read_bytes()
    head = through.head(keys.plate(1))
    assert head is not None
    assert head.sha256 == put.sha256
