"""The pace of a live line: less is looked at before less is shown, and it comes back."""

import pytest

from farm.worker.live_pace import CADENCES, STRIDES, Pace


def shown(pace: Pace, count: int, delay: float, *, faces: bool = True, start: float = 0.0) -> None:
    for number in range(count):
        pace.saw(start + number / 25, delay, faces=faces)


def test_inside_the_budget_everything_is_looked_at_and_shown() -> None:
    pace = Pace(0.2)
    shown(pace, 200, 0.15)
    assert (pace.cadence, pace.stride) == (1, 1)


def test_over_budget_the_detector_is_slowed_first_and_then_the_frame_rate() -> None:
    pace, steps = Pace(0.2), []
    for _ in range(7):
        shown(pace, 8, 0.5)
        steps.append((pace.cadence, pace.stride))
    assert steps == [(2, 1), (4, 1), (8, 1), (8, 2), (8, 3), (8, 4), (8, 4)]
    assert steps[-1] == (CADENCES[-1], STRIDES[-1])


def test_one_late_picture_changes_nothing() -> None:
    pace = Pace(0.2)
    for _ in range(20):
        shown(pace, 7, 0.1)
        shown(pace, 1, 5.0)
    assert (pace.cadence, pace.stride) == (1, 1)


def test_when_it_is_easy_again_a_step_is_taken_back() -> None:
    pace = Pace(0.2)
    shown(pace, 8 * 4, 0.5)
    assert (pace.cadence, pace.stride) == (8, 2)
    shown(pace, 50, 0.05)
    assert (pace.cadence, pace.stride) == (8, 1)
    shown(pace, 150, 0.05)
    assert (pace.cadence, pace.stride) == (1, 1)


@pytest.mark.parametrize(("seconds", "stride"), [(0.5, 1), (1.5, 2)])
def test_without_a_face_for_a_second_every_second_picture_is_left_out(seconds: float, stride: int) -> None:
    pace = Pace(0.2)
    shown(pace, int(seconds * 25) + 1, 0.05, faces=False)
    assert pace.stride == stride
    pace.saw(10.0, 0.05, faces=True)
    assert pace.stride == 1
