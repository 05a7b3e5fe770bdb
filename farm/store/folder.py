"""A store in a folder that every process of the farm can reach: a local disk or a shared file system.

    <root>/objects/<key>@     a small JSON file: which blob, its size, sha256, content type
    <root>/blobs/<id>         the bytes

A put writes and syncs a new blob, then replaces the small file by rename, so a reader sees the whole old object or the
whole new one, on network file systems too. `@` cannot be part of a key, so the keys `a` and `a/b` do not collide.
"""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

from farm.errors import InfrastructureError
from farm.store.base import ObjectInfo
from farm.store.files import Readable, copy_hashed, damaged, disk_errors, missing, replace_file, sync_folder
from farm.store.keys import check_key
from farm.store.signing import UrlSigner

_MARK = "@"
_TRIES = 20


@dataclass(frozen=True, slots=True)
class _Entry:
    info: ObjectInfo
    blob: Path
    content_type: str


class Span(io.RawIOBase):
    """At most `length` bytes of an open file from where it stands; closes the file with itself."""

    def __init__(self, source: io.FileIO, length: int | None) -> None:
        self._source = source
        self._left = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = len(view) if self._left is None else min(len(view), self._left)
        got = self._source.readinto(view[:wanted])
        if self._left is not None:
            self._left -= got
        return got

    def close(self) -> None:
        self._source.close()
        super().close()


class FolderStore:
    """Objects in a folder.

    Parameters
    ----------
    root: made on first use, readable by its owner only.
    signer: signs the links that the API serves.
    """

    def __init__(self, root: Path, signer: UrlSigner) -> None:
        self.root = root.absolute()
        self.signer = signer
        self._objects = self.root / "objects"
        self._blobs = self.root / "blobs"

    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        with path.open("rb") as source:
            return self._put(key, source, content_type)

    def put_bytes(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        return self._put(key, io.BytesIO(data), content_type)

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        entry, source = self._open(key)
        with source, disk_errors(path.parent, "an object is copied to it"), replace_file(path) as out:
            if copy_hashed(source, out) != (entry.info.size, entry.info.sha256):
                raise damaged(key)
        return entry.info

    def get_bytes(self, key: str) -> bytes:
        entry, source = self._open(key)
        out = io.BytesIO()
        with source:
            if copy_hashed(source, out) != (entry.info.size, entry.info.sha256):
                raise damaged(key)
        return out.getvalue()

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> BinaryIO:
        _, source = self._open(key)
        source.seek(start)
        return cast(BinaryIO, io.BufferedReader(Span(source, None if end is None else max(0, end - start))))

    def content_type(self, key: str) -> str:
        """What the object was stored as, for the API that serves it."""
        return self._read(key).content_type

    def head(self, key: str) -> ObjectInfo | None:
        entry = self._read_or_none(key)
        return entry.info if entry else None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        folder = prefix.rpartition("/")[0]
        for key in self._walk(self._objects / folder, f"{folder}/" if folder else ""):
            if key.startswith(prefix) and (entry := self._read_or_none(key)):
                yield entry.info

    def delete(self, key: str) -> None:
        entry = self._read_or_none(key)
        if entry is None:
            return
        with disk_errors(self.root, "an object is removed"):
            # The name goes first: a crash in between leaves a blob that nothing names, which the sweep removes.
            self._pointer(key).unlink(missing_ok=True)
            entry.blob.unlink(missing_ok=True)
            self._prune(self._pointer(key).parent)

    def delete_prefix(self, prefix: str) -> int:
        doomed = [info.key for info in self.list(prefix)]
        for key in doomed:
            self.delete(key)
        return len(doomed)

    def signed_url(self, key: str, *, expires: timedelta, filename: str | None = None) -> str:
        self._read(key)
        return self.signer.sign(key, expires=expires, filename=filename)

    def abort_stale_uploads(self, *, older_than: timedelta) -> int:
        """Removes blobs that no object names and that nobody wrote to for `older_than`."""
        horizon = time.time() - older_than.total_seconds()
        old = {path.name: path for path in _files(self._blobs) if _modified(path) < horizon}
        if not old:
            return 0
        for key in self._walk(self._objects, ""):
            if entry := self._read_or_none(key):
                old.pop(entry.blob.name, None)
        for path in old.values():
            path.unlink(missing_ok=True)
        return len(old)

    def _put(self, key: str, source: Readable, content_type: str) -> ObjectInfo:
        pointer = self._pointer(key)
        before = self._read_or_none(key)
        blob = self._blobs / uuid.uuid4().hex
        try:
            with disk_errors(self.root, "an object is stored"):
                self._blobs.mkdir(parents=True, exist_ok=True, mode=0o700)
                size, sha256 = _write_blob(source, blob)
                info = ObjectInfo(key, size, sha256, datetime.now(UTC))
                self._write_pointer(pointer, info, blob.name, content_type)
        except BaseException:
            blob.unlink(missing_ok=True)
            raise
        if before:
            before.blob.unlink(missing_ok=True)
        return info

    def _write_pointer(self, pointer: Path, info: ObjectInfo, blob: str, content_type: str) -> None:
        body = {
            "blob": blob,
            "size": info.size,
            "sha256": info.sha256,
            "modified": info.modified.isoformat(),
            "content_type": content_type,
        }
        for _ in range(_TRIES):
            pointer.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A delete beside us may take the empty folder away again before the file moves in.
            with suppress(FileNotFoundError):
                with replace_file(pointer, durable=True, beside=self._blobs) as out:
                    out.write(json.dumps(body).encode())
                return
        raise InfrastructureError(
            "The object's folder keeps vanishing.", where=info.key, do="Look for another program in the store's folder."
        )

    def _open(self, key: str) -> tuple[_Entry, io.FileIO]:
        for _ in range(_TRIES):
            entry = self._read(key)
            try:
                return entry, io.FileIO(entry.blob)
            except FileNotFoundError:
                continue  # replaced between the two reads: the name now leads to the new bytes
        raise damaged(key)

    def _read(self, key: str) -> _Entry:
        entry = self._read_or_none(key)
        if entry is None:
            raise missing(key)
        return entry

    def _read_or_none(self, key: str) -> _Entry | None:
        try:
            body = json.loads(self._pointer(key).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise InfrastructureError(
                "The object's record cannot be read.", where=key, do="Check the disk; requeue the task that made it."
            ) from error
        info = ObjectInfo(key, body["size"], body["sha256"], datetime.fromisoformat(body["modified"]))
        return _Entry(info, self._blobs / body["blob"], body["content_type"])

    def _pointer(self, key: str) -> Path:
        return self._objects / (check_key(key) + _MARK)

    def _walk(self, folder: Path, prefix: str) -> Iterator[str]:
        """Keys under a folder in key order: the names sort as keys when folders count with their slash."""
        try:
            entries = [entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(folder)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in sorted(entry.removesuffix(_MARK) for entry in entries if entry.endswith((_MARK, "/"))):
            if name.endswith("/"):
                yield from self._walk(folder / name, prefix + name)
            else:
                yield prefix + name

    def _prune(self, folder: Path) -> None:
        """Remove folders that became empty, up to the root of the objects."""
        while folder != self._objects:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _write_blob(source: Readable, blob: Path) -> tuple[int, str]:
    with os.fdopen(os.open(blob, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        size, sha256 = copy_hashed(source, out)
        out.flush()
        os.fsync(out.fileno())
    sync_folder(blob.parent)
    return size, sha256


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")
