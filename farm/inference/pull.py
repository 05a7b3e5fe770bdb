"""Bring weights to this machine: resumed, checked, atomic, from mirrors, upstream or a folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import requests
import urllib3

from farm.errors import FarmError, InfrastructureError, InputError, PolicyError
from farm.inference.integrity import sha256_of
from farm.inference.library import ModelLibrary, room_for
from farm.inference.spec import ModelFile
from farm.words import counted

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and the bytes that there will be, where known."""

_PIECE = 1 << 20
_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_LARGEST = 16 * 2**30


@dataclass(frozen=True, slots=True)
class Retries:
    """attempts per source; sleep(seconds) is called between them, twice as long each time."""

    attempts: int = 4
    first_wait: float = 1.0
    sleep: Callable[[float], None] = time.sleep


class Puller:
    """Pulls catalogue files into the home of a library.

    origins: mirrors that are tried before the entry's own sources: base addresses (http, https) or folders (a path or
        file://) that hold the file under its own name or under its sha256.
    """

    def __init__(
        self,
        library: ModelLibrary,
        *,
        origins: Sequence[str] = (),
        upstream: bool = True,
        retries: Retries | None = None,
    ) -> None:
        self._library = library
        self._origins = tuple(origins)
        self._upstream = upstream
        self._retries = retries or Retries()

    def pull(self, name: str, precision: str | None = None, progress: Progress | None = None) -> Path:
        """The verified path of the weights on this machine.

        Raises PolicyError where the catalogue knows no checksum, InputError where nothing offers the file, and
        InfrastructureError with every source's reason where none gave the right bytes.
        """
        file = self._library.catalogue.spec(name).file(precision)
        target = self._library.location(file)
        if file.sha256 is None:
            raise PolicyError(
                f"The catalogue knows no checksum for {file.file}, so it is neither kept nor run.",
                where=f"model {name}",
                do="Copy the entry into your own catalogue folder (FARM_MODELS_DIR) with the sha256 you trust.",
            )
        present = self._library.present(name, precision)
        if present is not None and sha256_of(present) == file.sha256:
            return present
        if target is None:
            raise InputError("There is no folder for pulled weights.", where="models", do="Set FARM_HOME.")
        target.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(target.with_suffix(".lock")):
            if not (target.is_file() and sha256_of(target) == file.sha256):
                self._from_any(name, file, target, progress or (lambda done, whole: None))
        return target

    def sources(self, file: ModelFile) -> list[str]:
        """Addresses in the order in which they are tried."""
        found: list[str] = []
        for origin in self._origins:
            scheme = urlsplit(origin).scheme
            if scheme in ("http", "https"):
                found += [f"{origin.rstrip('/')}/{quote(name)}" for name in _names(file)]
            else:
                folder = Path(unquote(urlsplit(origin).path)) if scheme == "file" else Path(origin)
                found += [str(folder / name) for name in _names(file) if (folder / name).is_file()]
        return found + list(file.sources if self._upstream else ())

    def _from_any(self, name: str, file: ModelFile, target: Path, progress: Progress) -> None:
        if not room_for(target, file.size):
            raise InputError(
                f"There is no room for {file.size} bytes in {target.parent}.",
                where=f"model {name}",
                do="Free some, or move FARM_HOME.",
            )
        reasons = []
        for source in self.sources(file):
            try:
                self._from_one(source, file, target, progress)
            except FarmError as error:
                reasons.append(f"{source}: {error.what}")
            else:
                return
        if not reasons:
            raise InputError(
                f"Nothing offers {file.file}: the entry names no source, and no mirror or folder holds it.",
                where=f"model {name}",
                do=f"Get the file with sha256 {file.sha256} and run: farm models pull {name} --from FOLDER",
            )
        raise InfrastructureError(
            f"No source gave the right {file.file}: {'; '.join(reasons)}.",
            where=f"model {name}",
            do="Try again later (what came is kept and resumed), or give a mirror or folder with --from.",
        )

    def _from_one(self, source: str, file: ModelFile, target: Path, progress: Progress) -> None:
        part = target.with_suffix(".part")
        if urlsplit(source).scheme in ("http", "https"):
            for fresh in (False, True):
                resumed = part.exists() and not fresh
                if fresh:
                    part.unlink(missing_ok=True)
                self._download(source, file, part, progress)
                if sha256_of(part) == file.sha256 or not resumed:
                    break  # a resumed file that is wrong gets one whole new try
        else:
            shutil.copyfile(source, part)
        _keep(part, file, target)

    def _download(self, source: str, file: ModelFile, part: Path, progress: Progress) -> None:
        wait = self._retries.first_wait
        for attempt in range(self._retries.attempts):
            if attempt:
                self._retries.sleep(wait)
                wait *= 2
            try:
                _get(source, file, part, progress)
            except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
                reason = f"the connection failed ({type(error).__name__})"
            except _BusyError as error:
                reason = str(error)
            else:
                return
        raise InfrastructureError(f"{reason}, {counted(self._retries.attempts, 'time')}", where=source)


class _BusyError(Exception):
    """The server asked to come back later."""


def _names(file: ModelFile) -> list[str]:
    return [file.file, str(file.sha256)]


def _get(source: str, file: ModelFile, part: Path, progress: Progress) -> None:
    """Append what is missing of `source` to `part`; a server that cannot resume sends it whole."""
    have = part.stat().st_size if part.exists() else 0
    if file.size is not None and have == file.size:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(source, headers=headers, stream=True, timeout=(_CONNECT_SECONDS, _READ_SECONDS)) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            return  # nothing is missing; the checksum decides
        if answer.status_code in (429, 500, 502, 503, 504):
            raise _BusyError(f"the server answered {answer.status_code}")
        if answer.status_code not in (200, 206):
            raise InfrastructureError(f"the server answered {answer.status_code}", where=source)
        if answer.status_code == requests.codes.ok:
            have = 0
        length = answer.headers.get("Content-Length")
        whole = have + int(length) if length is not None and length.isdigit() else None
        if whole is not None and file.size not in (None, whole):
            raise InfrastructureError(f"it offers {whole} bytes, the catalogue says {file.size}", where=source)
        with part.open("ab" if have else "wb") as out:
            while piece := answer.raw.read1(_PIECE):  # what has come, so that a cut loses nothing
                have += len(piece)
                if have > (file.size or _LARGEST):
                    raise InfrastructureError("it sends more bytes than the file has", where=source)
                out.write(piece)
                progress(have, file.size or whole)
    if whole is not None and have < whole:
        raise requests.ConnectionError("the answer ended early")


def _keep(part: Path, file: ModelFile, target: Path) -> None:
    """Move the part to its place if it is the right file; else delete it."""
    found = sha256_of(part)
    if found != file.sha256:
        part.unlink()
        raise InfrastructureError(f"its sha256 is {found}, the catalogue says {file.sha256}; it was deleted")
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    part.replace(target)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock on this machine, so that two workers do not write the same part."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
