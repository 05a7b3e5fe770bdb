"""The bundled networks, loaded once, and a short generated plate with its truth."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from farm.faces.candidate import PictureBytes
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import Truth, generate, portrait_picture


@pytest.fixture(scope="session")
def models() -> Iterator[Models]:
    with Models(Catalogue.load()) as loaded:
        yield loaded


@dataclass(frozen=True)
class Plate:
    path: Path
    facts: PlateFacts
    truth: Truth

    def frames(self, first: int = 0, last: int | None = None) -> Iterator[Frame]:
        end = len(self.truth) if last is None else last
        return (frame for frame in read_plate(self.path, self.facts) if first <= frame.index < end)


@pytest.fixture(scope="session")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Plate:
    sample = generate(tmp_path_factory.mktemp("plate"), seconds=1.5, size=(640, 360), people=2)
    return Plate(sample.plate, probe(sample.plate), Truth.load(sample.truth))


@pytest.fixture(scope="session")
def people(models: Models) -> dict[str, PreparedIdentity]:
    return {
        name: prepare_identity([PictureBytes(portrait_picture(name).read_bytes(), name)], models)
        for name in ("astronaut", "grace_hopper")
    }
