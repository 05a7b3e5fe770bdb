"""Catalogue models as stand-ins: the real loading path, with tiny networks of the same signature."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.inference.spec import LicenceClass, ModelFile, ModelSpec
from farm.inference.standins import stand_in

CATALOGUE = Catalogue.load()

Opener = Callable[..., Models]


@pytest.fixture
def open_stand_ins(tmp_path: Path) -> Iterator[Opener]:
    """open(*names, batch=None, broken={"name": bytes}) gives Models in which every named entry, and what it needs, is a
    stand-in. An entry with an fp16 file gets two: `broken` replaces the bytes of the fp16 one.
    """
    opened: list[Models] = []
    home = tmp_path / "home"
    (home / "weights").mkdir(parents=True)

    def pinned(data: bytes) -> ModelFile:
        digest = hashlib.sha256(data).hexdigest()
        (home / "weights" / f"{digest}.onnx").write_bytes(data)
        return ModelFile(file="stand-in.onnx", sha256=digest, size=len(data))

    def replaced(spec: ModelSpec, batch: int | None, broken: dict[str, bytes]) -> ModelSpec:
        good = pinned(stand_in(spec, batch=batch))
        files = {"fp32": good, "fp16": pinned(broken[spec.name]) if spec.name in broken else good}
        default = "fp16" if spec.name in broken else "fp32"
        return spec.model_copy(update={"files": files, "default_precision": default, "bundled": False})

    def opener(*names: str, batch: int | None = None, broken: dict[str, bytes] | None = None, **more: bool) -> Models:
        specs = {spec.name: spec for name in names for spec in CATALOGUE.with_needs(name)}
        specs = {name: replaced(spec, batch, broken or {}) for name, spec in specs.items()}
        catalogue = Catalogue(specs, dict.fromkeys(specs, tmp_path))
        accepted = {spec.name: spec.licence.id for spec in specs.values()}
        models = Models(catalogue, home=home, allowed_licences=list(LicenceClass), accepted=accepted, **more)
        opened.append(models)
        return models

    yield opener
    for models in opened:
        models.close()
