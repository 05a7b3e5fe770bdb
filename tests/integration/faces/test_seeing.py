"""The bundled networks on the two public-domain portraits."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.detect import Detector
from farm.faces.embed import SAME_PERSON, Embedder
from farm.faces.geometry import five_points, head_pose
from farm.faces.landmarks import Landmarker
from farm.inference.session import Models
from farm.sample import portrait_picture


@pytest.fixture(scope="module")
def astronaut() -> NDArray[np.uint8]:
    return np.asarray(cv2.imread(str(portrait_picture("astronaut"))), np.uint8)


class Eyes:
    def __init__(self, models: Models) -> None:
        self.detect = Detector(models.load("yunet"))
        self.mark = Landmarker(models.load("face-landmarks-478"))
        self.embed = Embedder(models.load("sface"))

    def embedding(self, picture: NDArray[np.uint8]) -> NDArray[np.float32]:
        (face,) = self.detect(picture)
        return self.embed(picture, five_points(self.mark(picture, face).points))


@pytest.fixture(scope="module")
def eyes(models: Models) -> Eyes:
    return Eyes(models)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_turned_face_is_the_same_person_with_a_turned_pose(
    eyes: Eyes, astronaut: NDArray[np.uint8], quarters: int
) -> None:
    turned = np.ascontiguousarray(np.rot90(astronaut, quarters))
    assert eyes.embedding(turned) @ eyes.embedding(astronaut) > 0.9
    (face,) = eyes.detect(turned)
    roll = head_pose(eyes.mark(turned, face).points).roll
    assert abs((roll + 90 * quarters - 3 + 180) % 360 - 180) < 6


def test_a_face_of_sixteen_pixels_is_found(eyes: Eyes, astronaut: NDArray[np.uint8]) -> None:
    small = cv2.resize(astronaut, None, fx=0.17, fy=0.17, interpolation=cv2.INTER_AREA)
    canvas = np.full((360, 640, 3), 90, np.uint8)
    canvas[100 : 100 + small.shape[0], 300 : 300 + small.shape[1]] = small
    (face,) = eyes.detect(canvas)
    np.testing.assert_allclose((face.box[:2] + face.box[2:]) / 2, [300 + 224 * 0.17, 100 + 118 * 0.17], atol=4)
    assert 14 < face.box[2] - face.box[0] < 20


def test_the_two_people_are_told_apart(eyes: Eyes, astronaut: NDArray[np.uint8]) -> None:
    admiral = np.asarray(cv2.imread(str(portrait_picture("grace_hopper"))), np.uint8)
    same = np.asarray(cv2.resize(astronaut, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
    assert eyes.embedding(astronaut) @ eyes.embedding(admiral) < 0.2
    assert eyes.embedding(astronaut) @ eyes.embedding(same) > SAME_PERSON * 2


def test_landmarks_do_not_depend_on_how_the_detectors_box_fell(eyes: Eyes, astronaut: NDArray[np.uint8]) -> None:
    (face,) = eyes.detect(astronaut)
    moved = type(face)(face.box + np.array([4, -3, 6, 2]), face.five + np.array([1, -1]), face.score)
    first, second = eyes.mark(astronaut, face), eyes.mark(astronaut, moved)
    assert first.presence > 0.95
    assert np.abs(first.points[:, :2] - second.points[:, :2]).mean() < 0.01 * face.size


def test_landmarks_follow_a_shift_of_the_picture(eyes: Eyes, astronaut: NDArray[np.uint8]) -> None:
    shifted = np.ascontiguousarray(np.roll(astronaut, (7, 11), axis=(0, 1)))
    before, after = (eyes.mark(p, eyes.detect(p)[0]).points for p in (astronaut, shifted))
    np.testing.assert_allclose((after - before)[:, :2].mean(axis=0), [11, 7], atol=0.5)
