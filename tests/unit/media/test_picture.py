"""Pictures for encoders, lent where their planes lie in one piece."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.media.picture import lent_picture
from farm.media.planes import to_planes

Planes = tuple[NDArray[np.uint8], ...]


def in_a_row(height: int, width: int, count: int = 2) -> tuple[NDArray[np.uint8], list[Planes]]:
    """`count` pictures of 4:2:0 one behind the other in one array, as a card's line gives them."""
    size = height * width * 3 // 2
    whole = np.arange(count * size, dtype=np.uint64).astype(np.uint8)
    half = (height // 2, width // 2)
    made: list[Planes] = []
    for index in range(count):
        flat = whole[index * size : (index + 1) * size]
        luma, chroma = flat[: height * width].reshape(height, width), flat[height * width :].reshape(2, *half)
        made.append((luma, chroma[0], chroma[1]))
    return whole, made


def test_planes_in_a_row_are_given_to_the_encoder_where_they_lie() -> None:
    whole, pictures = in_a_row(16, 32)
    for index, planes in enumerate(pictures):
        picture = lent_picture(planes, "yuv420p")
        assert picture.planes[0].buffer_ptr == whole.ctypes.data + index * 16 * 32 * 3 // 2
        assert [plane.line_size for plane in picture.planes] == [32, 16, 16]
        for given, seen in zip(planes, to_planes(picture)[0], strict=True):
            assert np.array_equal(given, seen)


def test_lent_memory_is_kept_until_the_picture_is_gone() -> None:
    whole, pictures = in_a_row(16, 32)
    gone: list[bool] = []
    weakref.finalize(whole, gone.append, True)
    picture = lent_picture(pictures[1], "yuv420p")
    del whole, pictures
    gc.collect()
    assert not gone
    del picture
    gc.collect()
    assert gone


@pytest.mark.parametrize("height", [18, 22])  # FFmpeg's way from memory would round the height down
def test_a_height_that_four_does_not_divide_is_copied_whole(height: int) -> None:
    _, pictures = in_a_row(height, 32)
    picture = lent_picture(pictures[1], "yuv420p")
    assert (picture.height, picture.width) == (height, 32)
    assert picture.planes[0].buffer_ptr != pictures[1][0].ctypes.data
    assert all(np.array_equal(a, b) for a, b in zip(pictures[1], to_planes(picture)[0], strict=True))


def test_planes_of_their_own_or_in_another_order_are_copied() -> None:
    _, pictures = in_a_row(16, 32)
    luma, cb, cr = pictures[0]
    for planes in ((luma.copy(), cb.copy(), cr.copy()), (luma, cr, cb), (luma, pictures[1][1], pictures[1][2])):
        picture = lent_picture(planes, "yuv420p")
        assert picture.planes[0].buffer_ptr != planes[0].ctypes.data
        assert all(np.array_equal(a, b) for a, b in zip(planes, to_planes(picture)[0], strict=True))
