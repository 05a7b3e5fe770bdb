"""Which frames of a batch are looked at in full, and what is said of those between."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.cuda.crop import Letterbox
from farm.faces.cuda.places import moved_far, next_crops
from farm.faces.cuda.seen import Seen, broken_spans, key_frames, sure
from tests.unit.gpu.material import surface

COUNT = 478


def seen(*faces: tuple[int, float, float, float]) -> Seen:
    """Faces as (place, x, size, score); their points are a fixed pattern in their boxes."""
    places, x, size, score = (np.array(values, np.float64) for values in zip(*faces, strict=True))
    box = np.stack([x, x, x + size, x + size], axis=1)
    pattern = np.random.default_rng(1).random((COUNT, 3))
    points = box[:, None, :1] + pattern * size[:, None, None]
    made = Seen(
        places.astype(np.int32), score.astype(np.float32), box, points[:, :5, :2], points, np.zeros(len(x), bool), 0
    )
    return made.of(np.argsort(places, kind="stable"))


def still(count: int) -> NDArray[np.float32]:
    return np.zeros((count, 36, 64), np.float32)


@pytest.mark.parametrize(
    ("first", "count", "peek", "told"),
    [
        (0, 8, True, [0, 4, 8]), (8, 8, True, [0, 4, 8]), (0, 6, False, [0, 4, 5]), (0, 1, False, [0]),
        (6, 5, False, [0, 2, 4]), (4, 3, True, [0, 3]),
    ],
)  # fmt: skip
def test_key_frames_are_multiples_in_the_plate_and_both_ends(
    first: int, count: int, peek: bool, told: list[int]
) -> None:
    assert key_frames(first, count, peek, 4).tolist() == told


def test_every_frame_is_a_key_frame_where_nothing_is_left_out() -> None:
    assert key_frames(3, 5, False, 1).tolist() == [0, 1, 2, 3, 4]


def test_a_face_that_goes_on_is_on_a_line() -> None:
    line, broken = broken_spans(seen((0, 100, 50, 0.9), (4, 108, 54, 0.8)), np.array([0, 4]), still(5))
    assert broken.tolist() == []
    assert line.frame_of.tolist() == [1, 2, 3]
    assert line.guessed.all()
    np.testing.assert_allclose(line.box[:, 0], [102, 104, 106])
    np.testing.assert_allclose(line.score, 0.8)
    np.testing.assert_allclose(line.points[1], seen((0, 104, 52, 1)).points[0])


@pytest.mark.parametrize(
    "faces",
    [
        [(0, 100, 50, 0.9)],
        [(4, 100, 50, 0.9)],
        [(0, 100, 50, 0.9), (4, 150, 50, 0.9)],
        [(0, 100, 50, 0.9), (4, 100, 80, 0.9)],
        [(0, 100, 50, 0.9), (0, 110, 50, 0.9), (4, 100, 50, 0.9), (4, 110, 50, 0.9)],
    ],
    ids=["goes", "comes", "jumps", "grows", "crowds"],
)
def test_a_span_in_which_something_happens_is_looked_at_in_full(faces: list[tuple[int, float, float, float]]) -> None:
    line, broken = broken_spans(seen(*faces), np.array([0, 4]), still(5))
    assert broken.tolist() == [1, 2, 3]
    assert len(line.frame_of) == 0


def test_a_cut_breaks_its_own_span_alone() -> None:
    small = still(9)
    small[6:] = 0.5
    faces = [(place, 100.0, 50.0, 0.9) for place in (0, 4, 8)]
    line, broken = broken_spans(seen(*faces), np.array([0, 4, 8]), small)
    assert broken.tolist() == [5, 6, 7]
    assert line.frame_of.tolist() == [1, 2, 3]


def test_what_comes_and_goes_within_a_span_breaks_it() -> None:
    small = still(9)
    small[6, 10:14, 20:24] = 0.2
    faces = [(place, 100.0, 50.0, 0.9) for place in (0, 4, 8)]
    line, broken = broken_spans(seen(*faces), np.array([0, 4, 8]), small)
    assert broken.tolist() == [5, 6, 7]
    assert line.frame_of.tolist() == [1, 2, 3]


def test_the_surer_view_of_a_frame_counts() -> None:
    upright = seen((0, 100, 50, 0.7), (1, 100, 50, 0.7))
    turned = seen((0, 20, 60, 0.9), (1, 20, 60, 0.6))
    best = upright.surer(turned, np.array([0, 1]))
    assert best.frame_of.tolist() == [0, 1]
    np.testing.assert_allclose(best.box[:, 0], [20, 100])
    assert sure(best, np.array([0, 1, 2]), 0.88).tolist() == [True, False, False]


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_a_turned_letterbox_knows_the_way_back(quarters: int) -> None:
    place = surface(96, 64)
    box = Letterbox.of(place, 48, quarters)
    row, column = np.mgrid[:64, :96]
    x, y = np.rot90(column, quarters), np.rot90(row, quarters)
    v, u = (np.mgrid[: box.filled[1], : box.filled[0]] + 0.5) * 2 - 0.5
    inner = np.floor(v).astype(int), np.floor(u).astype(int)
    made = np.stack(np.meshgrid(np.arange(box.filled[0]), np.arange(box.filled[1])), axis=-1) @ box.pixels[:, :2].T
    made += box.pixels[:, 2]
    assert np.abs(made[..., 0] - x[inner]).max() <= 0.5
    assert np.abs(made[..., 1] - y[inner]).max() <= 0.5


def test_points_that_ran_away_from_their_crop_ask_for_another() -> None:
    points = seen((0, 100, 50, 0.9), (1, 100, 50, 0.9)).points
    crops = next_crops(points, 256)
    moved = points.copy()
    moved[1, :, 0] += 8
    assert moved_far(points, crops, 256).tolist() == [False, False]
    assert moved_far(moved, crops, 256).tolist() == [False, True]
