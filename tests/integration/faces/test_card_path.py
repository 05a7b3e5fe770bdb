"""The card's path on its NumPy back end, with the real detector and landmarker, against the CPU path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.cuda.backend import NumpyKernels
from farm.faces.cuda.crop_step import Faces
from farm.faces.cuda.look import Looker
from farm.faces.cuda.paste import coverage, paste_plan
from farm.faces.cuda.places import similarities
from farm.faces.cuda.seen import Found
from farm.faces.cuda.surface import Surface
from farm.faces.cuda.swap import SwapSettings, SwapStep
from farm.faces.detect import Detector
from farm.faces.geometry import five_points
from farm.faces.landmarks import Landmarker
from farm.faces.neural_masks import box_mask
from farm.inference import providers as ep
from farm.inference.bound import open_bound
from farm.inference.buckets import Buckets
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.inference.standins import stand_in
from farm.inference.templates import template
from farm.media.facts import ColourFacts
from farm.resources import resource
from farm.sample.portrait import PORTRAITS

SIZE = (768, 512)
COLOUR = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location="left")
SURFACE = Surface(*SIZE, 8, COLOUR)
SOURCE = np.linspace(-0.2, 0.2, 512).astype(np.float32)


def _bgr(shift: int) -> NDArray[np.uint8]:
    """The portrait on a grey ground, moved to the right by `shift` pixels."""
    face = cv2.imread(str(PORTRAITS / "astronaut.png"))
    picture = np.full((SIZE[1], SIZE[0], 3), 90, np.uint8)
    picture[:, shift : shift + face.shape[1]] = face[: SIZE[1]]
    return picture


def _semi_planar(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    frame: Any = av.VideoFrame.from_ndarray(picture, format="bgr24").reformat(
        format="nv12", src_color_range=2, dst_color_range=1, dst_colorspace=1
    )
    rows = [np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, : SIZE[0]] for p in frame.planes]
    return np.concatenate(rows)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load(resource("models"))


@pytest.fixture(scope="module")
def looker(catalogue: Catalogue) -> Looker:
    kernels = NumpyKernels()
    weights = Path(str(resource("models"))) / "weights"

    def opened(name: str) -> tuple[Buckets, Any]:
        spec = catalogue.spec(name)
        network = open_bound(weights / spec.files["fp32"].file, 2, requested=[ep.CPU])
        return Buckets([network], 2, kernels.empty), spec

    return Looker(kernels, SURFACE, opened("yunet"), opened("face-landmarks-478"))


@pytest.fixture(scope="module")
def frames() -> NDArray[np.uint8]:
    return np.stack([_semi_planar(_bgr(shift)) for shift in (20, 200)])


@pytest.fixture(scope="module")
def found(looker: Looker, frames: NDArray[np.uint8]) -> Found:
    return looker.look(frames, 2)


def _step(catalogue: Catalogue, side: int = 0) -> SwapStep:
    kernels, spec, settings = NumpyKernels(), catalogue.spec("inswapper-128"), SwapSettings(side=side)
    needed = SwapStep.pictures_needed(spec, settings)
    network = open_bound(stand_in(spec), 2, requested=[ep.CPU])
    return SwapStep(kernels, SURFACE, Buckets([network], needed, kernels.empty), spec, settings)


def _faces(found: Found) -> Faces:
    return Faces.plain(found.frame_of, found.five, np.broadcast_to(SOURCE, (len(found), 512)))


def test_it_sees_what_the_cpu_path_sees(catalogue: Catalogue, found: Found) -> None:
    assert found.frame_of.tolist() == [0, 1]
    assert found.missed == 0
    with Models(catalogue) as models:
        detector, landmarker = Detector(models.load("yunet")), Landmarker(models.load("face-landmarks-478"))
        for index, shift in enumerate((20, 200)):
            picture = _bgr(shift)
            face = detector(picture)[0]
            points = landmarker(picture, face).points
            assert np.abs(face.box - found.box[index]).max() < 2
            assert np.abs(five_points(points) - found.five[index]).max() < 0.6
    assert found.presence.min() > 0.9


@pytest.mark.parametrize("side", [0, 256])
def test_faces_change_and_everything_else_keeps_its_bits(
    catalogue: Catalogue, found: Found, frames: NDArray[np.uint8], side: int
) -> None:
    made = frames.copy()
    _step(catalogue, side).lay(made, _faces(found))
    size = side or 128
    plan = paste_plan(SURFACE, found.frame_of, similarities(template("arcface_128", size), found.five), size)
    touched = coverage(SURFACE, plan, 2, box_mask(size))
    np.testing.assert_array_equal(made[~touched], frames[~touched])
    assert np.mean(made[touched] != frames[touched]) > 0.5


def test_a_frame_s_result_does_not_depend_on_its_batch(
    catalogue: Catalogue, looker: Looker, found: Found, frames: NDArray[np.uint8]
) -> None:
    step = _step(catalogue)
    together = frames.copy()
    step.lay(together, _faces(found))
    for index in range(2):
        alone = frames[index : index + 1].copy()
        step.lay(alone, _faces(looker.look(alone, 1)))
        np.testing.assert_array_equal(alone[0], together[index])


def test_frames_without_a_face_pass(catalogue: Catalogue, looker: Looker) -> None:
    empty = np.full((1, SURFACE.rows, SURFACE.width), 128, np.uint8)
    seen = looker.look(empty, 1)
    assert len(seen) == 0
    made = empty.copy()
    _step(catalogue).lay(made, _faces(seen))
    np.testing.assert_array_equal(made, empty)
