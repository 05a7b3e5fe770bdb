"""Identities made of clips, on the generated plate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm.errors import InputError
from farm.faces.candidate import PictureBytes
from farm.faces.footage import ClipFile
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.mapping import MappedPerson, Mapping
from farm.faces.pipeline import FacePipeline, Rendered
from farm.inference.session import Models
from farm.media.sandbox import stills_safely
from farm.media.writer import hash_planes
from farm.recipe import preset
from farm.sample import generate, portrait_picture
from tests.integration.faces.conftest import Plate


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The astronaut alone, who turns, speaks and blinks."""
    folder = tmp_path_factory.mktemp("clip")
    return generate(folder, seconds=1.2, size=(640, 360), people=1, events=False).plate


@pytest.fixture(scope="module")
def performer(clip: Path, models: Models) -> PreparedIdentity:
    return prepare_identity([], models, clips=[ClipFile(clip, "clip 1")])


def test_a_clip_becomes_a_bank_of_frames_that_differ(
    performer: PreparedIdentity, people: dict[str, PreparedIdentity]
) -> None:
    assert len(performer.bank) > 3
    assert performer.used == ("clip 1",)
    assert float(performer.embedding @ people["astronaut"].embedding) > 0.5
    assert np.ptp(performer.bank.traits[:, 0]) > 5, "the head turns"
    assert len(people["astronaut"].bank) == 1, "a picture is a bank of one"


def test_a_clip_of_two_people_needs_a_picture(plate: Plate, models: Models) -> None:
    clips = [ClipFile(plate.path, "clip 1")]
    with pytest.raises(InputError, match="clip 1: More than one person"):
        prepare_identity([], models, clips=clips)
    picture = PictureBytes(portrait_picture("grace_hopper").read_bytes(), "picture 1")
    found = prepare_identity([picture], models, clips=clips)
    assert set(found.used) == {"picture 1", "clip 1"}, "pictures and clips make one bank"
    assert set(found.bank.clips.tolist()) == {0, 1}
    assert float(found.embedding @ prepare_identity([picture], models).embedding) > 0.6


def test_stills_are_spread_over_the_clip(clip: Path) -> None:
    found = stills_safely(clip, 4)
    assert len(found) == 4
    assert len(set(found)) > 1


def render(
    plate: Plate, who: PreparedIdentity, people: dict[str, PreparedIdentity], models: Models, first: int, last: int
) -> list[str]:
    hopper = people["grace_hopper"]
    person = MappedPerson("person-1", hopper.embedding, "new", hopper.shape)
    pipeline = FacePipeline(preset("swap"), Mapping((person,)), {"new": who}, models, plate.facts)
    before, after = pipeline.context
    frames = plate.frames(max(0, first - before), min(len(plate.truth), last + after))
    return [_digest(result) for result in pipeline.process(frames, first, last)]


def _digest(result: Rendered) -> str:
    import hashlib

    digest = hashlib.sha256()
    hash_planes(digest, result.frame.planes)
    return digest.hexdigest()


def test_chunks_choose_the_same_frames_of_the_bank(
    plate: Plate, performer: PreparedIdentity, people: dict[str, PreparedIdentity], models: Models
) -> None:
    whole = render(plate, performer, people, models, 0, 20)
    parts = [d for low, high in ((0, 7), (7, 8), (8, 20)) for d in render(plate, performer, people, models, low, high)]
    assert parts == whole
    stored = PreparedIdentity.from_bytes(performer.to_bytes())
    assert render(plate, stored, people, models, 0, 4) == whole[:4]
    assert whole[:4] != render(plate, people["astronaut"], people, models, 0, 4)
