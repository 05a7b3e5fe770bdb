"""Where the weights lie on this machine: bundled, pulled into the model home, or on the farm's shared shelf."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from farm.errors import NotFoundError, PolicyError
from farm.inference.catalogue import Catalogue
from farm.inference.integrity import require_sha256
from farm.inference.spec import ModelFile


class ObjectShelf(Protocol):
    """The three calls of the farm's object store that sharing weights and engines needs."""

    def head(self, key: str) -> Any | None: ...

    def get_file(self, key: str, path: Path) -> Any: ...

    def put_file(self, key: str, path: Path) -> Any: ...


def weights_key(sha256: str) -> str:
    """The key of a weights file on the shelf: its content's hash, so that no two files can be mistaken."""
    return f"models/{sha256}"


class ModelLibrary:
    """Finds the file of a catalogue entry, and only ever one whose sha256 the catalogue knows."""

    def __init__(
        self,
        catalogue: Catalogue,
        home: Path | None = None,
        *,
        shelf: ObjectShelf | None = None,
        key: Callable[[str], str] = weights_key,
    ) -> None:
        self.catalogue = catalogue
        self.home = home
        self._shelf = shelf
        self._key = key

    def location(self, file: ModelFile) -> Path | None:
        """Where a pulled file lies in the model home; None without a home or a known checksum."""
        if self.home is None or file.sha256 is None:
            return None
        return self.home / "weights" / f"{file.sha256}{Path(file.file).suffix}"

    def present(self, name: str, precision: str | None = None) -> Path | None:
        """The path of the weights on this machine, unchecked, or None."""
        spec = self.catalogue.spec(name)
        file = spec.file(precision)
        candidates = [self.location(file)]
        if spec.bundled:
            candidates.insert(0, self.catalogue.folder(name) / "weights" / file.file)
        return next((path for path in candidates if path is not None and path.is_file()), None)

    def available(self, name: str, precision: str | None = None) -> bool:
        """Whether the weights are on this machine or on the shelf; they are not read."""
        if self.present(name, precision) is not None:
            return True
        file = self.catalogue.spec(name).file(precision)
        if self._shelf is None or self.home is None or file.sha256 is None:
            return False
        return self._shelf.head(self._key(file.sha256)) is not None

    def path(self, name: str, precision: str | None = None) -> Path:
        """The verified weights, fetched from the shelf where only it has them.

        Raises PolicyError where the catalogue knows no checksum, InputError where the bytes are others, NotFoundError
        where the weights are nowhere.
        """
        spec = self.catalogue.spec(name)
        file = spec.file(precision)
        if file.sha256 is None:
            raise PolicyError(
                f"The catalogue knows no checksum for {file.file}, so it is never run.",
                where=f"model {name}",
                do="Copy the entry into your own catalogue folder (FARM_MODELS_DIR) with the sha256 you trust.",
            )
        path = self.present(name, precision) or self._from_shelf(file)
        if path is None:
            raise NotFoundError(
                "The weights are not on this machine.", where=f"model {name}", do=f"Run: farm models pull {name}"
            )
        require_sha256(path, file.sha256, name=name)
        return path

    def share(self, name: str, precision: str | None = None) -> bool:
        """Put verified weights on the shelf for the other workers; False where there is no shelf or they are there."""
        file = self.catalogue.spec(name).file(precision)
        if self._shelf is None or file.sha256 is None or self._shelf.head(self._key(file.sha256)) is not None:
            return False
        self._shelf.put_file(self._key(file.sha256), self.path(name, precision))
        return True

    def remove(self, name: str, precision: str | None = None) -> bool:
        """Delete the pulled file from this machine; bundled files stay. True where something was deleted."""
        location = self.location(self.catalogue.spec(name).file(precision))
        if location is None or not location.exists():
            return False
        location.unlink()
        return True

    def _from_shelf(self, file: ModelFile) -> Path | None:
        target = self.location(file)
        if self._shelf is None or target is None or file.sha256 is None:
            return None
        if self._shelf.head(self._key(file.sha256)) is None:
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        self._shelf.get_file(self._key(file.sha256), target)
        return target


def room_for(path: Path, size: int | None) -> bool:
    """Whether the disk that will hold `path` has room for `size` bytes and a tenth more."""
    folder = next(parent for parent in (path, *path.parents) if parent.exists())
    return size is None or shutil.disk_usage(folder).free > size + size // 10
