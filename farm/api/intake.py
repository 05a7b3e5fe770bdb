"""Uploads: the parts of a multipart request, streamed to files of a scratch folder, counted and hashed on the way.

Nothing of a file is ever whole in memory, and the folder is gone when the request ends, whatever happens.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from flask import Request
from werkzeug.datastructures import FileStorage

from farm.api.problems import TooLargeError
from farm.errors import DiskFullError, InputError, is_disk_full
from farm.media.stills import HEAD_BYTES, is_clip

MAX_PARTS = 256
MAX_FIELD_BYTES = 1 << 20
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Received:
    """A file that has arrived. `label` is for messages to the sender only: a part's name, never a file name."""

    label: str
    path: Path
    size: int
    sha256: str

    @property
    def is_clip(self) -> bool:
        """Whether it is a video by its first bytes, and no picture."""
        with self.path.open("rb") as file:
            return is_clip(file.read(HEAD_BYTES))


class HashedFile(io.FileIO):
    """A new file that counts and hashes what is written to it, and takes `limit` bytes at most."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(path, "x+b")
        self.path = path
        self.size = 0
        self._limit = limit
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.size += len(view)
        if self.size > self._limit:
            raise TooLargeError(
                f"A part has more than {self._limit:,} bytes.",
                where="upload",
                do="Send a smaller file, or raise FARM_MAX_PLATE_BYTES.",
            )
        self._hash.update(view)
        with disk_full_named():
            while view:
                view = view[super().write(view) :]
        return len(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def disk_full_named() -> Iterator[None]:
    """Turn "no space left" into an error that says so to the client."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise DiskFullError(
            "The farm's disk is full.", where="store", do="Free some space on the farm's machine, then send it again."
        ) from error


class FarmRequest(Request):
    """A request whose file parts go to `incoming`, once a view has opened one."""

    incoming: Callable[[], HashedFile] | None = None

    def _get_file_stream(
        self,
        total_content_length: int | None,
        content_type: str | None,
        filename: str | None = None,
        content_length: int | None = None,
    ) -> IO[bytes]:
        if self.incoming is None:
            raise InputError("Files are not expected here.", where="body", do="See /api/v1/openapi.json.")
        return self.incoming()


class Intake:
    """Receives one request's files into `folder`.

    Parameters
    ----------
    folder: empty, on the disk where the store lies if there is one.
    max_plate, max_picture, max_clip: bytes. What a face is shown by is a clip or a picture by its first bytes.
    """

    def __init__(self, folder: Path, *, max_plate: int, max_picture: int, max_clip: int) -> None:
        self._folder = folder
        self._max_plate = max_plate
        self._max_picture = max_picture
        self._max_clip = max_clip
        self._most = max_plate + MAX_PARTS * max_picture
        self._made: list[HashedFile] = []

    def receive(self, request: FarmRequest) -> None:
        """Read the whole body. Errors: TooLargeError, DiskFullError, InputError for a body that is cut off."""
        length = request.content_length
        if length is not None:
            self._check_room(length)
        request.incoming = self._new_file
        request.max_content_length = self._most
        request.max_form_parts = MAX_PARTS
        request.max_form_memory_size = MAX_FIELD_BYTES
        try:
            _ = request.files
        finally:
            for made in self._made:
                made.close()

    def stored(self, part: FileStorage, label: str, *, picture: bool) -> Received:
        """What arrived as `part`."""
        made = cast(HashedFile, part.stream)
        received = Received(label, made.path, made.size, made.sha256)
        return self._limited(received) if picture else received

    def save(self, source: BinaryIO, label: str, *, picture: bool) -> Received:
        """Copy a stream (an object of the store) into the folder."""
        most = max(self._max_picture, self._max_clip) if picture else self._max_plate
        with HashedFile(self._next_path(), most) as out:
            while block := source.read(_COPY_BYTES):
                out.write(block)
        received = Received(label, out.path, out.size, out.sha256)
        return self._limited(received) if picture else received

    def _limited(self, received: Received) -> Received:
        """TooLargeError for a picture or clip over its limit."""
        what, most = ("clip", self._max_clip) if received.is_clip else ("picture", self._max_picture)
        if received.size > most:
            raise TooLargeError(
                f"The {what} has {received.size:,} bytes; at most {most:,} are taken.",
                where=received.label,
                do=f"Send a smaller {what}, or raise FARM_MAX_{what.upper()}_BYTES.",
            )
        return received

    def _new_file(self) -> HashedFile:
        made = HashedFile(self._next_path(), self._max_plate)
        self._made.append(made)
        return made

    def _next_path(self) -> Path:
        return self._folder / f"{len(list(self._folder.iterdir())):04d}"

    def _check_room(self, length: int) -> None:
        if length > self._most:
            raise TooLargeError(
                f"The upload has {length:,} bytes; at most {self._max_plate:,} are taken.",
                where="plate",
                do="Send a smaller file, or raise FARM_MAX_PLATE_BYTES.",
            )
        free = shutil.disk_usage(self._folder).free
        if length > free:
            raise DiskFullError(
                f"The upload has {length:,} bytes and the farm's disk has {free:,} left.",
                where="store",
                do="Free some space on the farm's machine, then send it again.",
            )
