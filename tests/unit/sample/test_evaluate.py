"""The judge's geometry: who is who, and where samples may change."""

from __future__ import annotations

import numpy as np
import pytest

from farm.faces.detect import Detection
from farm.media.facts import ColourFacts
from farm.media.frame import Frame, SampleFormat
from farm.sample.evaluate import changed_outside, find_person, may_change
from farm.sample.truth import Truth


@pytest.fixture
def truth() -> Truth:
    boxes = np.array([[[10, 10, 30, 30], [60, 10, 80, 30]]], np.float32)
    none = np.zeros((1, 2), np.float32)
    return Truth(
        scene={"identities": ["a", "b"], "time_base": "1/24"},
        pts=np.zeros(1, np.int64),
        clicks=np.zeros(0, np.int64),
        visible=np.ones((1, 2), np.bool_),
        occluded=none,
        inside=none,
        pose=np.zeros((1, 2, 3), np.float32),
        landmarks=np.zeros((1, 2, 478, 2), np.float32),
        box=boxes,
        lids=none,
        jaw=none,
        gaze=none,
    )


def _face(*box: float) -> Detection:
    return Detection(np.array(box, np.float64), np.zeros((5, 2)), 0.9)


def _frame(value: int) -> Frame:
    kind = SampleFormat("yuv420p", "yuv", 8, 1, 1, False)
    planes = (np.full((64, 96), value, np.uint8), *(np.full((32, 48), value, np.uint8) for _ in range(2)))
    return Frame(planes, kind, ColourFacts(), 0, 0)


def test_a_face_belongs_to_the_person_whose_box_it_shares(truth: Truth) -> None:
    left, right = _face(11, 9, 31, 32), _face(58, 10, 81, 30)
    assert find_person(truth, 0, 1, [left, right]) is right
    assert find_person(truth, 0, 0, [right]) is None
    assert find_person(truth, 0, 0, []) is None


def test_only_the_mapped_person_and_the_label_may_change(truth: Truth) -> None:
    allowed = may_change(truth, 0, ["a"], (96, 64), also=[(0, 60, 20, 64)])
    assert allowed[20, 20]
    assert allowed[62, 3]
    assert not allowed[20, 70]
    assert not allowed[50, 20]


def test_a_changed_sample_outside_is_counted_in_every_plane(truth: Truth) -> None:
    allowed = may_change(truth, 0, ["a"], (96, 64))
    plate, result = _frame(80), _frame(80)
    assert changed_outside(plate, result, allowed) == 0
    result.planes[0][20, 20] = 81
    result.planes[1][10, 10] = 81
    assert changed_outside(plate, result, allowed) == 0
    result.planes[0][20, 70] = 81
    result.planes[2][10, 35] = 81
    assert changed_outside(plate, result, allowed) == 2
