"""Regions to RGB and back: matrices, ranges, depths, chroma grids, and what must not change."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.media.colour import paste_rgb, region_to_rgb
from farm.media.facts import ColourFacts
from farm.media.frame import Frame
from farm.media.planes import planar_format

BOX = (5, 3, 58, 41)


def frame_of(
    name: str, *, matrix: str = "bt709", value_range: str = "tv", location: str = "left", seed: int = 1
) -> Frame:
    """A 64×48 frame of smooth noise inside the legal range."""
    fmt = planar_format(name)
    rng = np.random.default_rng(seed)
    planes = []
    for i in range((1 if fmt.family == "gray" else 3) + fmt.alpha):
        chroma = fmt.family == "yuv" and i in (1, 2)
        shape = (-(-48 // (1 << fmt.chroma_shift_y)), -(-64 // (1 << fmt.chroma_shift_x))) if chroma else (48, 64)
        low, high = (0.35, 0.65) if chroma else (0.2, 0.8)
        noise = rng.uniform(low, high, shape) * ((1 << fmt.depth) - 1)
        planes.append(np.rint(noise).astype(np.uint8 if fmt.depth == 8 else np.uint16))
    colour = ColourFacts(matrix=matrix, range=value_range, chroma_location=location)
    return Frame(tuple(planes), fmt, colour, pts=0, index=0)


def flat(name: str, samples: tuple[int, ...], **colour: str) -> Frame:
    frame = frame_of(name, **colour)
    for plane, value in zip(frame.planes, samples, strict=False):
        plane[:] = value
    return frame


def copies(frame: Frame) -> list[NDArray[np.generic]]:
    return [plane.copy() for plane in frame.planes]


@pytest.mark.parametrize(
    ("name", "colour", "samples", "rgb"),
    [
        ("yuv420p", {"matrix": "bt709"}, (63, 102, 240), (1.0, 0.0, 0.0)),
        ("yuv420p", {"matrix": "smpte170m"}, (81, 90, 240), (1.0, 0.0, 0.0)),
        ("yuv420p", {"matrix": "bt709", "value_range": "pc"}, (54, 99, 255), (1.0, 0.0, 0.0)),
        ("yuv420p10le", {"matrix": "bt2020nc"}, (294, 387, 960), (1.0, 0.0, 0.0)),
        ("yuv444p12le", {"matrix": "bt709"}, (3760, 2048, 2048), (1.0, 1.0, 1.0)),
        ("yuv422p", {"matrix": "bt709"}, (16, 128, 128), (0.0, 0.0, 0.0)),
        ("gbrp", {"matrix": "gbr", "value_range": "pc"}, (0, 0, 255), (1.0, 0.0, 0.0)),
        ("gray", {"value_range": "pc"}, (255,), (1.0, 1.0, 1.0)),
        ("gray16le", {"value_range": "tv"}, (60160,), (1.0, 1.0, 1.0)),
    ],
)
def test_known_colours_are_read_as_the_standards_say(
    name: str, colour: dict[str, str], samples: tuple[int, ...], rgb: tuple[float, ...]
) -> None:
    got = region_to_rgb(flat(name, samples, **colour), BOX)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.broadcast_to(np.float32(rgb), got.shape), atol=0.006)


@pytest.mark.parametrize("location", ["left", "center", "topleft", "top", "bottomleft"])
@pytest.mark.parametrize(
    "name", ["yuv420p", "yuv420p10le", "yuv422p10le", "yuv444p", "gray10le", "gbrp12le", "yuva420p"]
)
def test_unchanged_rgb_pasted_back_changes_luma_by_at_most_one_code(name: str, location: str) -> None:
    frame = frame_of(name, location=location)
    before = copies(frame)
    rgb = region_to_rgb(frame, BOX)
    paste_rgb(frame, BOX, rgb, np.ones(rgb.shape[:2], np.float32))
    assert np.abs(frame.planes[0].astype(int) - before[0].astype(int)).max() <= 1
    if frame.format.alpha:
        np.testing.assert_array_equal(frame.planes[-1], before[-1])


@pytest.mark.parametrize("name", ["yuv420p", "yuv411p", "yuv422p10le", "yuv444p", "gbrp", "gray"])
def test_a_mask_of_zero_changes_no_bit_even_under_values_that_are_no_number(name: str) -> None:
    frame = frame_of(name)
    before = copies(frame)
    rgb = np.full((BOX[3] - BOX[1], BOX[2] - BOX[0], 3), np.nan, np.float32)
    paste_rgb(frame, BOX, rgb, np.zeros(rgb.shape[:2], np.float32))
    for now, then in zip(frame.planes, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("location", ["left", "center", "topleft"])
def test_only_samples_under_the_mask_change(location: str) -> None:
    frame = frame_of("yuv420p", location=location)
    before = copies(frame)
    mask = np.zeros((38, 53), np.float32)
    mask[11:21, 13:33] = 1.0
    paste_rgb(frame, BOX, np.ones((38, 53, 3), np.float32), mask)
    luma = np.zeros((48, 64), bool)
    luma[14:24, 18:38] = True
    np.testing.assert_array_equal(frame.planes[0][~luma], before[0][~luma])
    assert (frame.planes[0][luma] == 235).all()
    for plane in (1, 2):
        changed = np.argwhere(frame.planes[plane] != before[plane])
        assert changed.min(axis=0)[0] >= 6
        assert changed.max(axis=0)[0] <= 12
        assert changed.min(axis=0)[1] >= 8
        assert changed.max(axis=0)[1] <= 19
        assert (frame.planes[plane][8:11, 10:18] == 128).all()


def test_half_a_mask_is_half_the_way_rounded_to_nearest() -> None:
    frame = flat("yuv420p", (100, 128, 128), value_range="pc")
    paste_rgb(frame, (0, 0, 64, 48), np.full((48, 64, 3), 201 / 255, np.float32), np.full((48, 64), 0.5, np.float32))
    assert set(np.unique(frame.planes[0])) <= {150, 151}
    assert (frame.planes[1] == 128).all()


def test_a_flat_colour_over_noise_leaves_no_trace_of_the_old_chroma() -> None:
    frame = frame_of("yuv420p")
    paste_rgb(frame, (0, 0, 64, 48), np.full((48, 64, 3), (0.8, 0.2, 0.3), np.float32), np.ones((48, 64), np.float32))
    for plane in frame.planes:
        inner = plane[2:-2, 2:-2]
        assert int(inner.max()) - int(inner.min()) <= 1


@pytest.mark.parametrize("location", ["left", "center", "topleft"])
def test_chroma_is_sampled_where_it_lies(location: str) -> None:
    """A ramp in chroma read at luma pixels is the same ramp, with its zero where the siting says."""
    frame = flat("yuv420p", (128, 128, 128), location=location)
    frame.planes[1][:] = np.arange(32, dtype=np.uint8)[None, :] * 2 + 90
    blue = region_to_rgb(frame, (10, 10, 50, 40))[:, :, 2]
    per_step = (blue[0, -1] - blue[0, 0]) / (blue.shape[1] - 1)
    phase = 0.0 if location.endswith("left") else 0.5
    cb = (blue - (128 - 16) / 219) / (2 * (1 - 0.0722)) * 224 + 128
    np.testing.assert_allclose(cb[5], (np.arange(10, 50) - phase) + 90, atol=0.05)
    assert per_step > 0


def test_boxes_at_odd_edges_of_odd_frames_work() -> None:
    fmt = planar_format("yuv420p")
    planes = (np.full((3, 17), 90, np.uint8), np.full((2, 9), 100, np.uint8), np.full((2, 9), 140, np.uint8))
    frame = Frame(planes, fmt, ColourFacts(matrix="bt709", range="tv"), 0, 0)
    for box in ((16, 2, 17, 3), (0, 0, 17, 3), (1, 1, 2, 2), (15, 0, 17, 1)):
        rgb = region_to_rgb(frame, box)
        paste_rgb(frame, box, rgb, np.ones(rgb.shape[:2], np.float32))
    assert (frame.planes[0] == 90).all()
    assert (frame.planes[1] == 100).all()
    assert (frame.planes[2] == 140).all()


@pytest.mark.parametrize("box", [(0, 0, 0, 5), (-1, 0, 5, 5), (60, 0, 65, 5), (0, 40, 5, 49)])
def test_boxes_outside_the_frame_are_refused(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="leaves the 64×48 frame"):
        region_to_rgb(frame_of("yuv420p"), box)


def test_unknown_matrices_are_guessed_by_height() -> None:
    small = region_to_rgb(flat("yuv420p", (81, 90, 240), matrix="unknown"), BOX)
    np.testing.assert_allclose(small[0, 0], (1, 0, 0), atol=0.01)
