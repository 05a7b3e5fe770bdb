"""The catalogue, the pulled weights and the accepted licences of one deployment, opened the same way everywhere."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from farm.errors import InputError
from farm.inference.catalogue import Catalogue
from farm.inference.library import ModelLibrary, ObjectShelf
from farm.inference.opening import EngineDir
from farm.inference.providers import ProviderSettings
from farm.inference.session import Models


class Acceptances:
    """Licences accepted by model name, in a JSON file of the model home: name → licence id, when, by whom."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, dict[str, str]]:
        """All acceptances; InputError where the file is not what this class writes."""
        if not self._path.exists():
            return {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(name): {str(k): str(v) for k, v in entry.items()} for name, entry in found.items()}
        except (ValueError, AttributeError) as error:
            raise InputError(
                "The record of accepted licences is damaged.", where=str(self._path), do="Delete it and accept again."
            ) from error

    def by_name(self) -> Mapping[str, str]:
        return {name: entry.get("licence", "") for name, entry in self.read().items()}

    def accept(self, name: str, licence: str, *, by: str, now: datetime | None = None) -> None:
        """Record that `by` accepted `licence` for the model; the file is replaced whole."""
        found = self.read()
        found[name] = {"licence": licence, "by": by, "at": (now or datetime.now(UTC)).isoformat(timespec="seconds")}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".accepted-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(found, stream, indent=2, sort_keys=True)
        Path(temporary).replace(self._path)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What `farm models` and the workers share. engines: the folder of compiled engines."""

    catalogue: Catalogue
    library: ModelLibrary
    acceptances: Acceptances
    engines: Path

    def open_models(
        self,
        *,
        providers: Iterable[str],
        threads: int = 1,
        allowed_licences: Iterable[str] = (),
        settings: ProviderSettings | None = None,
        engine_dir: EngineDir | None = None,
        free_batches: bool = False,
    ) -> Models:
        """The models as a worker uses them: pulled weights found, accepted licences known."""
        return Models(
            self.catalogue,
            providers=providers,
            threads=threads,
            allowed_licences=allowed_licences,
            accepted=self.acceptances.by_name(),
            library=self.library,
            settings=settings,
            engine_dir=engine_dir,
            free_batches=free_batches,
        )


def open_deployment(home: Path, extra: Path | None = None, *, shelf: ObjectShelf | None = None) -> Deployment:
    """The product's catalogue with the entries of `extra` on top; pulled weights and engines in `home`/models.

    shelf: the farm's store, from which weights that another machine pulled are fetched.
    """
    if extra is not None and not extra.is_dir():
        raise InputError("There is no such folder.", where=str(extra), do="Correct FARM_MODELS_DIR.")
    catalogue = Catalogue.load(extra)
    place = home / "models"
    return Deployment(
        catalogue=catalogue,
        library=ModelLibrary(catalogue, place, shelf=shelf),
        acceptances=Acceptances(place / "accepted-licences.json"),
        engines=place / "engines",
    )
