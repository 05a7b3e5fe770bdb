"""The card's context with a fake for the driver, and where a picture's planes lie."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest

from farm.errors import InfrastructureError
from farm.faces.cuda.backend import NumpyKernels
from farm.media import nvdec
from tests.unit.gpu.material import noise, surface


class _Driver:
    """libcuda with a primary context that is `active` with `flags`."""

    def __init__(self, *, active: int = 0, flags: int = 0, init: int = 0) -> None:
        self.active, self.flags, self.init = active, flags, init

    def cuInit(self, _: int) -> int:
        return self.init

    def cuDeviceGet(self, handle: Any, index: int) -> int:
        handle._obj.value = index
        return 0

    def cuDevicePrimaryCtxSetFlags_v2(self, _: Any, flags: int) -> int:
        if not self.active:
            self.flags = flags
        return 0

    def cuDevicePrimaryCtxGetState(self, _: Any, flags: Any, active: Any) -> int:
        flags._obj.value, active._obj.value = self.flags, self.active
        return 0


def test_the_context_gets_the_flag_that_ffmpeg_asks_for() -> None:
    driver = _Driver()
    assert nvdec.claim_primary_context(load=lambda _: driver)
    assert driver.flags == 4
    assert nvdec.claim_primary_context(load=lambda _: _Driver(active=1, flags=4))


def test_a_context_that_somebody_else_made_is_named() -> None:
    with pytest.raises(InfrastructureError, match="touched before"):
        nvdec.claim_primary_context(load=lambda _: _Driver(active=1, flags=0))


def test_no_driver_is_no_error() -> None:
    def missing(_: str) -> Any:
        raise OSError("libcuda.so.1")

    assert not nvdec.claim_primary_context(load=missing)
    assert not nvdec.claim_primary_context(load=lambda _: _Driver(init=100))


@pytest.mark.parametrize(("depth", "sample_format"), [(8, "nv12"), (10, "p010le")])
def test_a_picture_is_taken_from_where_its_planes_lie(depth: int, sample_format: str) -> None:
    place = surface(90, 64, depth=depth)
    told = noise(place, 1)[0]
    picture = av.VideoFrame(90, 64, sample_format)
    for plane, rows in zip(picture.planes, (told[:64], told[64:]), strict=True):
        assert plane.line_size > rows.nbytes // len(rows)
        held = np.frombuffer(memoryview(plane), np.uint8).reshape(len(rows), plane.line_size)
        held[:, : rows.nbytes // len(rows)] = rows.view(np.uint8)
    made = np.zeros((2, place.rows, place.width), place.dtype)
    NumpyKernels().take(picture, place, made[1])
    np.testing.assert_array_equal(made[1], told)
