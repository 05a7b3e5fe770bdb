"""The choice of a decoder and the card's context, with fakes for FFmpeg and the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.errors import InfrastructureError
from farm.media import nvdec

PLATE = Path("plate.mp4")


def _picture(_: Path) -> None:
    return None


def test_the_card_decodes_what_it_can() -> None:
    choice = nvdec.choose_decoder(PLATE, sample_format="yuv420p", devices=lambda: ["cuda"], first_picture=_picture)
    assert choice == nvdec.DecoderChoice("nvdec")


@pytest.mark.parametrize(
    ("sample_format", "devices", "word"),
    [("yuv444p10le", ["cuda"], "no form for yuv444p10le"), ("yuv420p", ["vaapi"], "without CUDA")],
)
def test_the_processor_decodes_the_rest_and_the_record_says_why(
    sample_format: str, devices: list[str], word: str
) -> None:
    choice = nvdec.choose_decoder(PLATE, sample_format=sample_format, devices=lambda: devices, first_picture=_picture)
    assert choice.name == "cpu"
    assert word in choice.why


@pytest.mark.parametrize("error", [RuntimeError("no hwaccel"), NotImplementedError(), StopIteration("none")])
def test_a_decoder_that_gives_no_picture_is_left(error: Exception) -> None:
    def refuse(_: Path) -> None:
        raise error

    choice = nvdec.choose_decoder(PLATE, sample_format="yuv420p10le", devices=lambda: ["cuda"], first_picture=refuse)
    assert choice.name == "cpu"
    assert "NVDEC gave no picture" in choice.why


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
