"""An identity's form, fitted on the product's own heads: it is known better on heads that were never shown."""

from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from farm.faces.embed import Embedder
from farm.faces.geometry import five_points
from farm.faces.identity import PreparedIdentity
from farm.faces.likeness import Sitter, fitted, seated, sitters
from farm.faces.meshwarp import SwapSettings, reproportioned, swap
from farm.inference.session import Models
from farm.jobs.request import IdentityRef
from farm.recipe import Recipe, preset
from farm.resources import resource
from farm.sample import portrait_picture
from farm.sample.bust import Bust, Pose
from farm.sample.expression import Expression
from farm.sample.portrait import load_portrait
from farm.sample.sitters import sitters as drawn_sitters
from farm.store.memory import MemoryStore
from farm.worker.identities import make_identities


@pytest.fixture(scope="module")
def heads(models: Models) -> list[Sitter]:
    return sitters(models)


@pytest.fixture(scope="module")
def astronaut(models: Models, people: dict[str, PreparedIdentity], heads: list[Sitter]) -> PreparedIdentity:
    return fitted(people["astronaut"], heads, models)


def alike(identity: PreparedIdentity, head: Sitter, embed: Embedder) -> float:
    """How much the head that wears the identity is like the identity's own picture."""
    frame = head.shot()
    assert swap(frame, head.target, identity, SwapSettings()) is not None
    green, blue, red = frame.planes
    picture = np.asarray(np.dstack([blue, green, red]), np.uint8)
    return float(embed(picture, five_points(reproportioned(head.target, identity, 1.0))) @ identity.embedding)


def test_the_sitters_are_what_the_sample_draws() -> None:
    drawn = drawn_sitters()
    stored = {path.name: cv2.imread(str(path)) for path in (resource("models") / "sitters").glob("*.jpg")}
    assert stored.keys() == drawn.keys()
    for name, picture in drawn.items():
        assert np.abs(stored[name].astype(int) - picture).mean() < 3, name


def test_a_fitted_form_is_known_better_on_heads_in_other_poses(
    models: Models, people: dict[str, PreparedIdentity], astronaut: PreparedIdentity
) -> None:
    embed = Embedder(models.load("sface"))
    portrait = load_portrait("grace_hopper")
    bust, looks = Bust(portrait, 1.2), []
    for yaw, pitch, roll in ((-14, 6, -8), (0, -8, 0), (9, 3, 12)):
        picture = np.full((300, 300, 3), 60, np.uint8)
        scale = 130 / portrait.face_width
        bust.draw(picture, Pose(150, 185, scale, yaw, pitch, roll), Expression(gaze=0.3), np.array([-0.1, 0, 0]))
        looks.append(picture)
    others = seated(looks, models)
    before, after = (np.array([alike(who, head, embed) for head in others]) for who in (people["astronaut"], astronaut))
    assert after.mean() > before.mean() + 0.005
    assert (after > before - 0.015).all()


def test_a_form_is_bent_by_millimetres_and_kept(
    models: Models, people: dict[str, PreparedIdentity], astronaut: PreparedIdentity, heads: list[Sitter]
) -> None:
    moved = np.linalg.norm(astronaut.shape - people["astronaut"].shape, axis=1)
    assert 0.02 < moved.max() < 0.6
    assert np.array_equal(PreparedIdentity.from_bytes(astronaut.to_bytes()).shape, astronaut.shape)
    assert astronaut.detail is people["astronaut"].detail
    itself = [head for head in heads if float(head.embedding @ astronaut.embedding) > 0.8]
    assert itself
    assert fitted(people["astronaut"], itself, models) is people["astronaut"]


def job_of(models: Models, recipe: Recipe, mapping: dict[str, Any]) -> SimpleNamespace:
    """A cast task's context, as far as identities need one."""
    names = ("grace_hopper", "astronaut")
    files = {name: (portrait_picture(name), None) for name in names}
    return SimpleNamespace(
        claim=SimpleNamespace(
            job=SimpleNamespace(
                recipe=recipe,
                mapping_request=mapping,
                identities=tuple(IdentityRef.model_construct(label=n, face=None, pictures=(n,)) for n in names),
            )
        ),
        toolbox=SimpleNamespace(models=lambda: models, sources=None),
        heartbeat=SimpleNamespace(check=lambda: None),
        store=MemoryStore(),
        job_id="job",
        fetch=lambda given, name: files[given],
    )


def test_a_job_fits_the_identity_that_is_put_in_and_not_the_one_that_is_replaced(
    models: Models, people: dict[str, PreparedIdentity], astronaut: PreparedIdentity
) -> None:
    mapping = {"mode": "reference", "references": {"grace_hopper": "astronaut"}}
    made = make_identities(job_of(models, preset("swap"), mapping))  # type: ignore[arg-type]
    assert np.array_equal(made["astronaut"].shape, astronaut.shape)
    assert np.array_equal(made["grace_hopper"].shape, people["grace_hopper"].shape)
