"""Decoding, letterboxing, overlaps and turned pictures, with a network that marks one bright spot."""

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.detect import SIDE, Detector, overlap


class SpotNetwork:
    """Sees a face of 64 pixels with its right eye up left wherever one pixel is bright and one to its right is grey."""

    def __init__(self, score: float = 0.95) -> None:
        self.score = score
        self.runs = 0

    def run(self, **inputs: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        self.runs += 1
        picture = inputs["input"][0].mean(axis=0)
        out: dict[str, NDArray[np.float32]] = {}
        for stride in (8, 16, 32):
            cells = (SIDE // stride) ** 2
            out |= {f"{kind}_{stride}": np.zeros((1, cells, 1), np.float32) for kind in ("cls", "obj")}
            out[f"bbox_{stride}"] = np.zeros((1, cells, 4), np.float32)
            out[f"kps_{stride}"] = np.zeros((1, cells, 10), np.float32)
        for y, x in np.argwhere(picture > 230):
            if picture[y, x + 8] < 60:
                continue
            for shift, score in ((0, self.score), (1, self.score - 0.1)):
                cell = (y // 8) * (SIDE // 8) + x // 8 + shift
                out["cls_8"][0, cell] = out["obj_8"][0, cell] = score
                out["bbox_8"][0, cell] = [(x % 8) / 8 - shift, (y % 8) / 8, np.log(8), np.log(8)]
                out["kps_8"][0, cell] = np.tile([(x % 8) / 8 - shift, (y % 8) / 8], 5)
        return out


def spotted(height: int, width: int, x: int, y: int) -> NDArray[np.uint8]:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[y, x] = 255
    picture[y, x + 8] = 100
    return picture


def test_one_face_is_found_once_in_its_own_pixels() -> None:
    (face,) = Detector(SpotNetwork())(spotted(640, 640, 200, 120))
    np.testing.assert_allclose(face.box, [168, 88, 232, 152], atol=1e-4)
    np.testing.assert_allclose(face.five, np.tile([200, 120], (5, 1)), atol=1e-4)
    assert face.score == pytest.approx(0.95)
    assert face.size == pytest.approx(64)


def test_a_wide_picture_is_letterboxed_and_its_coordinates_are_kept() -> None:
    (face,) = Detector(SpotNetwork())(spotted(360, 640, 400, 300))
    np.testing.assert_allclose((face.box[:2] + face.box[2:]) / 2, [400, 300], atol=1e-4)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_turned_face_is_found_where_it_is(quarters: int) -> None:
    upright = spotted(640, 640, 200, 120)
    turned = np.ascontiguousarray(np.rot90(upright, quarters))
    row, column = np.argwhere(turned[..., 0] == 255)[0]
    (face,) = Detector(SpotNetwork())(turned)
    np.testing.assert_allclose(face.five[0], [column, row], atol=1e-4)


def test_a_sure_upright_face_costs_one_run_and_an_unsure_one_is_looked_at_again() -> None:
    sure, unsure = SpotNetwork(0.95), SpotNetwork(0.8)
    Detector(sure)(spotted(640, 640, 200, 120))
    Detector(unsure)(spotted(640, 640, 200, 120))
    assert (sure.runs, unsure.runs) == (1, 4)


def test_nothing_is_found_in_black() -> None:
    assert Detector(SpotNetwork())(np.zeros((100, 200, 3), np.uint8)) == []


def test_overlap_is_intersection_over_union() -> None:
    boxes = np.array([[0.0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6]])
    np.testing.assert_allclose(overlap(boxes[0], boxes), [1, 1 / 7, 0])
