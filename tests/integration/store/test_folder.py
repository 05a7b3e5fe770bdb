"""What only the folder store promises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from farm.errors import InfrastructureError
from farm.store import keys
from farm.store.folder import FolderStore


def _blobs(store: FolderStore) -> list[Path]:
    return sorted((store.root / "blobs").iterdir())


def test_only_the_owner_can_look_inside(folder: FolderStore) -> None:
    folder.put_bytes(keys.plate(1), b"x")
    assert (folder.root / "blobs").stat().st_mode & 0o777 == 0o700
    assert _blobs(folder)[0].stat().st_mode & 0o777 == 0o600


def test_replacing_and_deleting_leave_no_files_behind(folder: FolderStore) -> None:
    folder.put_bytes(keys.plate(1), b"one")
    folder.put_bytes(keys.plate(1), b"two")
    assert len(_blobs(folder)) == 1
    folder.delete(keys.plate(1))
    assert _blobs(folder) == []
    assert list((folder.root / "objects").iterdir()) == []


@pytest.mark.parametrize("damage", [b"dama_e", b"short"])
def test_damaged_bytes_are_never_handed_out_as_good(folder: FolderStore, tmp_path: Path, damage: bytes) -> None:
    folder.put_bytes(keys.plate(1), b"damage")
    _blobs(folder)[0].write_bytes(damage)
    target = tmp_path / "target"
    with pytest.raises(InfrastructureError, match="sha256"):
        folder.get_file(keys.plate(1), target)
    with pytest.raises(InfrastructureError, match="sha256"):
        folder.get_bytes(keys.plate(1))
    assert not target.exists()


def test_readers_see_whole_objects_while_a_writer_replaces_them(folder: FolderStore) -> None:
    key, wholes = keys.plate(1), {bytes([n]) * (1000 + n) for n in range(50)}
    folder.put_bytes(key, next(iter(wholes)))
    done, seen, errors = threading.Event(), set(), []

    def read() -> None:
        while not done.is_set():
            try:
                seen.add(folder.get_bytes(key))
            except Exception as error:
                errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for whole in wholes:
        folder.put_bytes(key, whole)
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert seen <= wholes


_WRITER = """
import sys
from pathlib import Path
from farm.store.folder import FolderStore
from farm.store.signing import UrlSigner
store = FolderStore(Path(sys.argv[1]), UrlSigner(b"sixteen bytes or more"))
print("ready", flush=True)
n = 0
while True:
    n = (n + 1) % 250
    store.put_bytes("plate", bytes([n]) * 200_000)
    print(n, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_object_and_what_it_left_is_swept(folder: FolderStore) -> None:
    for lines in (1, 2, 3):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(folder.root)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(lines + 1):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        data = folder.get_bytes("plate")
        assert data == data[:1] * 200_000
    folder.abort_stale_uploads(older_than=timedelta(0))
    assert len(_blobs(folder)) == 1
    assert folder.get_bytes("plate") == data


def test_the_sweep_removes_old_leftovers_only(folder: FolderStore) -> None:
    folder.put_bytes(keys.plate(1), b"kept")
    old, fresh = folder.root / "blobs" / "old", folder.root / "blobs" / "fresh"
    for path in (old, fresh):
        path.write_bytes(b"x")
    for path in (old, *(p for p in _blobs(folder) if p != fresh)):
        os.utime(path, (0, 0))
    assert folder.abort_stale_uploads(older_than=timedelta(hours=1)) == 1
    assert fresh.exists()
    assert folder.get_bytes(keys.plate(1)) == b"kept"


def test_the_content_type_is_kept_for_the_api(folder: FolderStore) -> None:
    folder.put_bytes(keys.plate(1), b"x", content_type="video/mp4")
    assert folder.content_type(keys.plate(1)) == "video/mp4"
