"""Mesh-warp's kernels on a card, against the processor's swap and against their twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from farm.faces import meshwarp
from farm.faces.cuda.mesh_card import CudaMesh
from farm.faces.cuda.mesh_device import NumpyMesh
from farm.faces.cuda.mesh_step import MeshStep
from farm.faces.cuda.surface import Surface
from farm.faces.dressing import dressed
from farm.media import nvdec
from tests.unit.gpu.test_mesh import CASES, LEAST_DB, SETTINGS, decibels, on_device, planned, plate

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def kernels() -> Any:
    pytest.importorskip("cupy", reason="needs CuPy")
    if not nvdec.claim_primary_context():
        pytest.skip("no CUDA driver")
    from farm.faces.cuda.device import CudaKernels

    return CudaKernels()


@pytest.mark.parametrize("case", CASES)
def test_a_card_paints_as_the_processor_does_and_as_the_twins_do(kernels: Any, case: str) -> None:
    shot = plate()
    surface = Surface.of(shot)
    pictures = np.zeros((1, surface.rows, surface.width), surface.dtype)
    surface.pack(shot, pictures[0])
    frames = kernels.empty(pictures.shape, surface.dtype)
    kernels.upload(pictures, frames)
    [told] = MeshStep(CudaMesh(kernels), surface, SETTINGS).lay(frames, [planned(case, shot)], masks=True)
    made = surface.unpack(kernels.download(frames)[0], shot)
    twin, _ = on_device(NumpyMesh(), case)
    who, someone, shares = CASES[case]
    patch = meshwarp.swap(shot, who, someone if shares is None else dressed(someone, shares), SETTINGS)
    assert patch is not None
    assert told.mask is not None
    whole = np.zeros((shot.height, shot.width), bool)
    x0, y0, x1, y1 = patch.box
    whole[y0:y1, x0:x1] = (patch.mask > 0) | (told.mask > 0)
    assert decibels(made, shot, whole) > LEAST_DB
    for mine, other in zip(made.planes, twin.planes, strict=True):
        apart = np.abs(mine.astype(int) - other)
        assert apart.max() <= 1
        assert (apart > 0).mean() < 1e-3
