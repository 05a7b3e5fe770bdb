"""A store in memory: the twin of the real ones for tests without services."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from farm.store.base import ObjectInfo
from farm.store.files import missing, replace_file
from farm.store.keys import check_key
from farm.store.signing import UrlSigner, utc_now


@dataclass(frozen=True, slots=True)
class _Object:
    info: ObjectInfo
    data: bytes


class MemoryStore:
    """Keeps whole objects in a dict; for small ones."""

    def __init__(self, *, signer: UrlSigner | None = None, now: Callable[[], datetime] = utc_now) -> None:
        self._objects: dict[str, _Object] = {}
        self._now = now
        self.signer = signer or UrlSigner(b"for tests without services", "http://memory.invalid", now)

    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        return self.put_bytes(key, path.read_bytes(), content_type=content_type)

    def put_bytes(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        info = ObjectInfo(check_key(key), len(data), hashlib.sha256(data).hexdigest(), self._now())
        self._objects[key] = _Object(info, bytes(data))
        return info

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        found = self._find(key)
        with replace_file(path) as out:
            out.write(found.data)
        return found.info

    def get_bytes(self, key: str) -> bytes:
        return self._find(key).data

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> BinaryIO:
        return io.BytesIO(self._find(key).data[start:end])

    def head(self, key: str) -> ObjectInfo | None:
        found = self._objects.get(check_key(key))
        return found.info if found else None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for key in sorted(self._objects):
            found = self._objects.get(key)
            if found and key.startswith(prefix):
                yield found.info

    def delete(self, key: str) -> None:
        self._objects.pop(check_key(key), None)

    def delete_prefix(self, prefix: str) -> int:
        doomed = [info.key for info in self.list(prefix)]
        for key in doomed:
            self.delete(key)
        return len(doomed)

    def signed_url(self, key: str, *, expires: timedelta, filename: str | None = None) -> str:
        self._find(key)
        return self.signer.sign(key, expires=expires, filename=filename)

    def abort_stale_uploads(self, *, older_than: timedelta) -> int:
        return 0

    def _find(self, key: str) -> _Object:
        try:
            return self._objects[check_key(key)]
        except KeyError:
            raise missing(key) from None
