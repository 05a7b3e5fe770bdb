from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from farm.errors import DiskFullError
from farm.store.files import disk_errors, replace_file
from farm.store.folder import FolderStore
from farm.store.signing import UrlSigner


def test_a_block_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "f"
    target.write_bytes(b"old")

    def write_and_fail() -> None:
        with replace_file(target) as out:
            out.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_said_with_what_is_free(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskFullError, match=r"disk is full while an object is stored: \d+ MiB are free"),
        disk_errors(tmp_path, "an object is stored"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_put_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(tmp_path, UrlSigner(b"0123456789abcdef"))
    store.put_bytes("a", b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="disk is full"):
        store.put_bytes("a", b"new")
    assert store.get_bytes("a") == b"old"
    assert len(list((tmp_path / "blobs").iterdir())) == 1
