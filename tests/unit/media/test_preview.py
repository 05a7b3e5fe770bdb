"""Upright previews: turned, mirrored, square, and with a map back to the frame."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from farm.media.colour import upright_preview
from farm.media.facts import ColourFacts, PlateFacts, VideoFacts
from farm.media.frame import Frame
from farm.media.planes import planar_format

_ONE = 65536
TURNS = {
    "none": None,
    "90 counter-clockwise": (0, -_ONE, 0, _ONE, 0, 0, 0, 0, 1 << 30),
    "180": (-_ONE, 0, 0, 0, -_ONE, 0, 0, 0, 1 << 30),
    "90 clockwise": (0, _ONE, 0, -_ONE, 0, 0, 0, 0, 1 << 30),
    "mirrored": (-_ONE, 0, 0, 0, _ONE, 0, 0, 0, 1 << 30),
    "transposed": (0, _ONE, 0, _ONE, 0, 0, 0, 0, 1 << 30),
}


def plate(matrix: tuple[int, ...] | None, *, aspect: Fraction = Fraction(1), transfer: str = "bt709") -> PlateFacts:
    video = VideoFacts(
        stream_index=0,
        codec="rawvideo",
        width=160,
        height=96,
        sample_format="yuv444p",
        bit_depth=8,
        time_base=Fraction(1, 25),
        display_matrix=matrix,
        sample_aspect_ratio=aspect,
        colour=ColourFacts(matrix="bt709", range="pc", transfer=transfer),
    )
    return PlateFacts(container="nut", size=1, video=video)


def dotted(x: int, y: int) -> Frame:
    """Black but for an 8×8 white square whose first pixel is (x, y)."""
    luma = np.zeros((96, 160), np.uint8)
    luma[y : y + 8, x : x + 8] = 255
    grey = np.full((96, 160), 128, np.uint8)
    colour = ColourFacts(matrix="bt709", range="pc", transfer="bt709")
    return Frame((luma, grey, grey.copy()), planar_format("yuv444p"), colour, 0, 0)


def centre(picture: np.ndarray) -> np.ndarray:
    rows, columns = np.nonzero(picture[:, :, 0] > 127)
    return np.array([columns.mean(), rows.mean(), 1.0])


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("max_side", [160, 40])
def test_the_affine_leads_from_the_preview_back_to_the_frame(turn: str, max_side: int) -> None:
    picture, affine = upright_preview(dotted(112, 16), plate(TURNS[turn]), max_side)
    assert max(picture.shape[:2]) == max_side
    assert affine.shape == (2, 3)
    np.testing.assert_allclose(affine @ centre(picture), (115.5, 19.5), atol=0.01)


@pytest.mark.parametrize(
    ("turn", "corner"),
    [
        ("none", (1, 0)),
        ("90 counter-clockwise", (0, 0)),
        ("90 clockwise", (1, 1)),
        ("180", (0, 1)),
        ("mirrored", (0, 0)),
    ],
)
def test_a_corner_goes_where_a_player_puts_it(turn: str, corner: tuple[int, int]) -> None:
    """A square at the top right of the coded picture; `corner` is (right, bottom) of the picture shown."""
    picture, _ = upright_preview(dotted(144, 0), plate(TURNS[turn]), 160)
    x, y, _ = centre(picture)
    assert (x > picture.shape[1] / 2, y > picture.shape[0] / 2) == (bool(corner[0]), bool(corner[1]))


def test_anamorphic_pictures_are_stretched_to_square_pixels() -> None:
    picture, affine = upright_preview(dotted(80, 40), plate(None, aspect=Fraction(2)), 400)
    assert picture.shape == (96, 320, 3)
    np.testing.assert_allclose(affine @ centre(picture), (83.5, 43.5), atol=0.3)


def test_channels_are_blue_green_red() -> None:
    frame = dotted(0, 0)
    for plane, value in zip(frame.planes, (54, 99, 255), strict=True):
        plane[:] = value
    picture, _ = upright_preview(frame, plate(None), 160)
    np.testing.assert_allclose(picture[50, 50], (0, 0, 255), atol=3)


def test_pq_white_is_shown_bright_and_not_clipped_to_grey() -> None:
    frame = dotted(0, 0)
    frame.planes[0][:] = round(0.58 * 255)  # 203 nits
    frame.colour = frame.colour.model_copy(update={"transfer": "smpte2084"})
    picture, _ = upright_preview(frame, plate(None, transfer="smpte2084"), 160)
    assert 200 <= picture.mean() <= 250
