"""Built engines, kept by everything that makes one engine differ from another.

Building takes minutes, and an engine fits one set of weights, one GPU, one version of everything (onnxruntime #6455:
two networks of the same structure once shared an engine, and one ran with the other's weights). So the key holds the
weights' sha256 and all of that; each key has a folder of its own, and what lies there is checked against its manifest.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from farm.errors import InfrastructureError
from farm.inference.integrity import sha256_of
from farm.inference.library import ObjectShelf

Shape = tuple[int, ...]
Beat = Callable[[str], None]
"""Called again and again while an engine is built or waited for, with the state in words; it may raise to stop."""

_MANIFEST = "manifest.json"
_BEAT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The shapes of one input that the engine must take."""

    least: Shape
    usual: Shape
    most: Shape


@dataclass(frozen=True, slots=True)
class EngineKey:
    """What an engine is for.

    versions: of everything that compiles or runs it (onnxruntime, tensorrt, cuda, driver). gpu: name and compute
    capability. shapes: profile of each input by its name in the graph.
    """

    model_sha256: str
    provider: str
    precision: str
    gpu: str
    versions: Mapping[str, str]
    shapes: Mapping[str, Profile] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    def digest(self) -> str:
        """sha256 of the canonical JSON: different in anything, different in name."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()


def engine_key(digest: str) -> str:
    """The key of a packed engine on the shelf."""
    return f"engines/{digest}"


class EngineCache:
    """Engine folders under `folder`, shared with other machines through `shelf`."""

    def __init__(
        self, folder: Path, *, shelf: ObjectShelf | None = None, name: Callable[[str], str] = engine_key
    ) -> None:
        self._folder = folder
        self._shelf = shelf
        self._name = name

    def get(self, key: EngineKey) -> Path | None:
        """The folder with the engine for exactly `key`, fetched from the shelf where only it has it, or None.

        A folder whose files are not those of its manifest, or whose manifest is another key's, is thrown away.
        """
        place = self._place(key)
        if place.is_dir():
            if _whole(place, key):
                return place
            shutil.rmtree(place)
        return self._from_shelf(key, place)

    def put(self, key: EngineKey, built: Path) -> Path:
        """Move a folder of built files into the cache, whole or not at all, and share it."""
        files = {path.name: sha256_of(path) for path in sorted(built.iterdir()) if path.is_file()}
        if not files:
            raise InfrastructureError(
                "The build left no files.", where="engine", do="See the build log; the next provider is used meanwhile."
            )
        (built / _MANIFEST).write_text(json.dumps({"key": key.as_dict(), "files": files}, indent=2, sort_keys=True))
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            shutil.rmtree(place)
        built.replace(place)
        self.share(key)
        return place

    def share(self, key: EngineKey) -> None:
        """Put the engine of `key`, which is here, on the shelf where it is not there yet."""
        if self._shelf is not None and self._shelf.head(self._name(key.digest())) is None:
            self._share(key, self._place(key), self._shelf)

    def keep_newest(self, most: int) -> None:
        """Remove all engines from this machine but the `most` that were made or fetched last."""
        places = [path for path in self._folder.iterdir() if (path / _MANIFEST).is_file()]
        for place in sorted(places, key=lambda path: path.stat().st_mtime, reverse=True)[most:]:
            shutil.rmtree(place, ignore_errors=True)
            place.with_name(f"{place.name}.lock").unlink(missing_ok=True)

    def ensure(self, key: EngineKey, build: Callable[[Path], None], *, beat: Beat | None = None) -> Path:
        """The engine for `key`, built by `build(folder)` where nobody has it yet.

        One process on this machine builds, the others wait; `beat` is called all the while.
        """
        say = beat or (lambda state: None)
        found = self.get(key)
        if found is not None:
            return found
        self._folder.mkdir(parents=True, exist_ok=True)
        with _locked(self._folder / f"{key.digest()}.lock", say):
            found = self.get(key)
            if found is not None:
                return found
            say("building engine")
            with tempfile.TemporaryDirectory(dir=self._folder, prefix=".build-", ignore_cleanup_errors=True) as scratch:
                out = Path(scratch, "engine")
                out.mkdir()
                build(out)
                return self.put(key, out)

    def _place(self, key: EngineKey) -> Path:
        return self._folder / key.digest()

    def _share(self, key: EngineKey, place: Path, shelf: ObjectShelf) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".pack-") as scratch:
            packed = Path(scratch, "engine.tar")
            with tarfile.open(packed, "w") as archive:
                for path in sorted(place.iterdir()):
                    archive.add(path, path.name, recursive=False)
            shelf.put_file(self._name(key.digest()), packed)

    def _from_shelf(self, key: EngineKey, place: Path) -> Path | None:
        name = self._name(key.digest())
        if self._shelf is None or self._shelf.head(name) is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
            packed, out = Path(scratch, "engine.tar"), Path(scratch, "engine")
            self._shelf.get_file(name, packed)
            out.mkdir()
            try:
                with tarfile.open(packed) as archive:
                    archive.extractall(out, filter="data")
            except tarfile.TarError:
                return None
            if not _whole(out, key):
                return None
            if not place.exists():
                out.replace(place)
        return place


def _whole(folder: Path, key: EngineKey) -> bool:
    """Whether the folder holds the engine of exactly this key, byte for byte."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        files: dict[str, str] = manifest["files"]
        return manifest["key"] == key.as_dict() and all(sha256_of(folder / name) == sha for name, sha in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def _locked(path: Path, beat: Beat) -> Iterator[None]:
    with path.open("w") as stream:
        while not _try_lock(stream):
            beat("waiting for an engine that another worker builds")
            time.sleep(_BEAT_SECONDS)
        yield


def _try_lock(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
