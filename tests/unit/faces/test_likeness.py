"""Which bends a form is tried in, and when."""

import numpy as np

from farm.faces.likeness import bends
from farm.faces.mesh import LEFT_BROW, OVAL, RIGHT_BROW, canonical_mesh
from farm.faces.processors import fits_forms
from farm.recipe import preset


def test_a_bend_treats_both_sides_alike_and_shifts_by_its_centimetres() -> None:
    vertices, found = canonical_mesh().vertices.astype(np.float64), bends()
    mirror = np.argmin(np.linalg.norm(vertices[:, None] * [-1, 1, 1] - vertices[None], axis=2), axis=1)
    assert np.abs(found[:, mirror] * [-1, 1, 1] - found).max() < 0.05
    assert (np.abs(found) <= 2.2).all()
    outwards, up, _ = found[:3]
    left, right = (outwards[list(brow), 0].mean() for brow in (LEFT_BROW, RIGHT_BROW))
    assert 0.4 < left <= 1
    assert -1 <= right < -0.4
    assert up[list(LEFT_BROW), 1].mean() < -0.4
    assert np.abs(outwards[list(OVAL)]).mean() < 0.3


def test_no_bend_opens_or_shuts_an_eye() -> None:
    lids = bends()[:, [159, 145, 386, 374], 1]
    assert np.abs(lids[:, 0] - lids[:, 1]).max() < 0.2
    assert np.abs(lids[:, 2] - lids[:, 3]).max() < 0.2


def test_forms_are_fitted_for_the_swap_that_has_proportions() -> None:
    def recipe(settings: dict[str, object]) -> bool:
        plain = preset("swap")
        first = plain.processors[0].model_copy(update={"settings": settings})
        return fits_forms(plain.model_copy(update={"processors": (first,)}))

    assert recipe({})
    assert not recipe({"fitted": False})
    assert not recipe({"proportions": 0.0})
    assert not fits_forms(preset("swap-inswapper"))
    assert not fits_forms(preset("passthrough"))
