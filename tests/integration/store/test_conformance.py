"""What every store must do; the same tests over the twin in memory, the folder and two S3 servers."""

from __future__ import annotations

import hashlib
import random
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farm.errors import NotFoundError
from farm.store import keys
from farm.store.base import Store

JOB = uuid.UUID(int=7)


def _bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [0, 1, 70_000])
def test_bytes_come_back(store: Store, size: int) -> None:
    data, key = _bytes(size), keys.timeline(JOB)
    before = datetime.now(UTC) - timedelta(seconds=2)
    put = store.put_bytes(key, data)
    assert (put.key, put.size, put.sha256) == (key, size, hashlib.sha256(data).hexdigest())
    assert store.get_bytes(key) == data
    head = store.head(key)
    assert head is not None
    assert (head.key, head.size, head.sha256) == (put.key, put.size, put.sha256)
    assert before <= head.modified <= datetime.now(UTC) + timedelta(seconds=2)


def test_a_file_in_several_parts_comes_back(store: Store, tmp_path: Path) -> None:
    data = _bytes((11 << 20) + 3)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    put = store.put_file(keys.plate(JOB), source)
    got = store.get_file(keys.plate(JOB), target)
    assert put.sha256 == got.sha256 == hashlib.sha256(data).hexdigest()
    assert target.read_bytes() == data
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["source", "target"]


def test_a_put_replaces_the_object(store: Store) -> None:
    key = keys.cast(JOB)
    store.put_bytes(key, b"old")
    store.put_bytes(key, b"newer")
    assert store.get_bytes(key) == b"newer"
    assert [info.size for info in store.list(key)] == [5]


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (2, 5, b"234"),
        (0, 0, b""),
        (8, 99, b"89"),
        (10, None, b""),
        (20, 30, b""),
    ],
)
def test_ranges(store: Store, start: int, end: int | None, wanted: bytes) -> None:
    store.put_bytes(keys.plate(JOB), b"0123456789")
    with store.open(keys.plate(JOB), start=start, end=end) as stream:
        assert stream.read() == wanted


def test_a_stream_is_read_in_small_steps(store: Store) -> None:
    data = _bytes(300_000)
    store.put_bytes(keys.plate(JOB), data)
    with store.open(keys.plate(JOB), start=5) as stream:
        parts = list(iter(lambda: stream.read(7919), b""))
    assert b"".join(parts) == data[5:]


def test_what_is_not_there(store: Store, tmp_path: Path) -> None:
    key = keys.plate(JOB)
    assert store.head(key) is None
    for act in (
        lambda: store.get_bytes(key),
        lambda: store.get_file(key, tmp_path / "x"),
        lambda: store.open(key),
        lambda: store.open(key, start=3, end=3),
        lambda: store.signed_url(key, expires=timedelta(minutes=1)),
    ):
        with pytest.raises(NotFoundError):
            act()
    store.delete(key)
    assert store.delete_prefix(keys.job(JOB)) == 0
    assert list(store.list(keys.job(JOB))) == []
    assert [p for p in tmp_path.iterdir() if p.is_file()] == []


def test_listing_is_in_key_order_and_by_prefix(store: Store) -> None:
    names = ["a", "a-1", "a.b", "a/b", "a/b/c", "a0", "b/000009", "b/000010", "b"]
    for name in reversed(names):
        store.put_bytes(name, name.encode())
    assert [info.key for info in store.list("")] == sorted(names)
    assert [info.key for info in store.list("a/")] == ["a/b", "a/b/c"]
    assert [info.key for info in store.list("b/0000")] == ["b/000009", "b/000010"]
    assert [info.size for info in store.list("a0")] == [2]
    assert list(store.list("c")) == []


def test_deleting(store: Store) -> None:
    for chunk in range(3):
        store.put_bytes(keys.segment(JOB, chunk), b"x")
    store.put_bytes(keys.plate(JOB), b"x")
    store.delete(keys.segment(JOB, 1))
    assert store.head(keys.segment(JOB, 1)) is None
    assert [info.key for info in store.list(keys.segments(JOB))] == [keys.segment(JOB, 0), keys.segment(JOB, 2)]
    assert store.delete_prefix(keys.segments(JOB)) == 2
    assert [info.key for info in store.list("")] == [keys.plate(JOB)]


def test_more_objects_than_one_page_are_listed_and_removed(store: Store) -> None:
    for number in range(1005):
        store.put_bytes(keys.segment(JOB, number), b"")
    assert sum(1 for _ in store.list(keys.segments(JOB))) == 1005
    assert store.delete_prefix(keys.segments(JOB)) == 1005
    assert list(store.list("")) == []


def test_fresh_uploads_are_not_stale(store: Store) -> None:
    store.put_bytes(keys.plate(JOB), b"x")
    assert store.abort_stale_uploads(older_than=timedelta(hours=1)) == 0
    assert store.get_bytes(keys.plate(JOB)) == b"x"
