"""Where decoding may start, by the bits and not by the container's flag alone."""

from __future__ import annotations

import pytest

from farm.media.randomaccess import nal_units, recovery_frames, start_test

AVCC = bytes([1, 100, 0, 31, 0xFF, 0xE1, 0, 0])
START = b"\0\0\0\1"
IDR = b"\x65\x88\x84"
P_SLICE = b"\x41\x9a\x00"
I_SLICE = b"\x01\x88\x80"
RECOVERY_AT_ONCE = b"\x06\x06\x01\xc4\x80"
RECOVERY_IN_7 = b"\x06\x06\x02\x11\x20\x80"


def avcc(*units: bytes) -> bytes:
    return b"".join(len(u).to_bytes(4, "big") + u for u in units)


def annex_b(*units: bytes) -> bytes:
    return b"".join(START + u for u in units)


def test_recovery_points_are_read() -> None:
    assert recovery_frames(RECOVERY_AT_ONCE[1:]) == 0
    assert recovery_frames(RECOVERY_IN_7[1:]) == 7
    assert recovery_frames(b"\x05\x02ab" + RECOVERY_AT_ONCE[1:]) == 0
    assert recovery_frames(b"\x05\x02ab\x80") is None
    assert recovery_frames(b"\x06") is None


@pytest.mark.parametrize(("frame", "extradata"), [(avcc, AVCC), (annex_b, None), (annex_b, START + b"\x67")])
def test_h264_starts(frame: object, extradata: bytes | None) -> None:
    assert callable(frame)
    may_start = start_test("h264", extradata)
    assert may_start(frame(b"\x09\x10", IDR), True, 0)
    assert may_start(frame(RECOVERY_AT_ONCE, I_SLICE), True, 9)
    assert not may_start(frame(RECOVERY_IN_7, P_SLICE), True, 9)
    assert not may_start(frame(I_SLICE), True, 9)
    assert not may_start(frame(IDR), False, 0)
    assert not may_start(b"", True, 0)


def test_hevc_starts_at_every_kind_of_random_access_picture() -> None:
    may_start = start_test("hevc", None)
    for kind in (16, 19, 20, 21):
        assert may_start(annex_b(b"\x40\x01", bytes([kind << 1, 1, 0x80])), True, 0)
    assert not may_start(annex_b(bytes([1 << 1, 1, 0x80])), True, 0)


def test_other_codecs_go_by_their_nature() -> None:
    assert start_test("prores", None)(b"x", False, 5)
    assert start_test("vp9", None)(b"x", True, 5)
    assert not start_test("vp9", None)(b"x", False, 5)
    assert start_test("gif", None)(b"x", True, 0)
    assert not start_test("gif", None)(b"x", True, 5)


def test_units_that_do_not_fit_end_the_list() -> None:
    assert [bytes(u) for u in nal_units(avcc(b"ab") + b"\0\0\0\x09x", 4)] == [b"ab"]
    assert [bytes(u) for u in nal_units(b"\0\0\0\0rest", 4)] == []
