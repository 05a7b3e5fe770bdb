"""H.264 in field pictures (PAFF), which x264 cannot write: a small bit stream of raw macroblocks and skipped ones.

Syntax as in ITU-T H.264 clause 7.3: Main profile, CAVLC, one slice a picture. Groups of eight pictures: an IDR field
with the field that repeats it, frames as two coded fields, as a coded and a skipped field, and as whole frames.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT, GROUP = 64, 64, 8
_ACROSS, _DOWN = WIDTH // 16, HEIGHT // 16
_PCM_IN_I = 25
_I_SLICE, _P_SLICE = 7, 5


class _Bits:
    def __init__(self) -> None:
        self._bits: list[str] = []

    def u(self, width: int, value: int) -> _Bits:
        self._bits.append(f"{value:0{width}b}")
        return self

    def ue(self, *values: int) -> _Bits:
        for value in values:
            code = f"{value + 1:b}"
            self._bits.append("0" * (len(code) - 1) + code)
        return self

    def align(self) -> _Bits:
        self._bits.append("0" * (-sum(map(len, self._bits)) % 8))
        return self

    def raw(self, data: bytes) -> _Bits:
        self._bits.append("".join(f"{byte:08b}" for byte in data))
        return self

    def unit(self, kind: int, ref: int) -> bytes:
        """The NAL unit of these bits, with its start code."""
        text = "".join([*self._bits, "1"])
        text += "0" * (-len(text) % 8)
        body = int(text, 2).to_bytes(len(text) // 8, "big")
        out, zeros = bytearray(), 0
        for byte in body:
            if zeros >= 2 and byte <= 3:
                out.append(3)
                zeros = 0
            out.append(byte)
            zeros = zeros + 1 if byte == 0 else 0
        return b"\0\0\0\1" + bytes([ref << 5 | kind]) + bytes(out)


def _headers() -> bytes:
    sps = _Bits().u(8, 77).u(8, 0).u(8, 30).ue(0, 0, 0, 4, 2).u(1, 0).ue(_ACROSS - 1, _DOWN // 2 - 1)
    sps.u(1, 0).u(1, 0).u(1, 1).u(1, 0)
    # Usability information: 50 fields a second, nothing else.
    sps.u(1, 1).u(4, 0).u(1, 1).u(32, 1).u(32, 50).u(1, 1).u(4, 0)
    pps = _Bits().ue(0, 0).u(2, 0).ue(0, 0, 0).u(3, 0).ue(0, 0, 0).u(1, 1).u(2, 0)
    return sps.unit(7, 3) + pps.unit(8, 3)


def _macroblock(field: NDArray[np.uint8], row: int, column: int) -> bytes:
    luma = field[16 * row : 16 * row + 16, 16 * column : 16 * column + 16]
    return luma.tobytes() + luma[::2, ::2].tobytes() + (255 - luma[::2, ::2]).tobytes()


def _slice(number: int, samples: NDArray[np.uint8] | None, parity: int | None) -> bytes:
    """A coded picture: field `parity` or, with None, a frame of `samples`; one that is all skipped without samples."""
    place = number % GROUP
    idr, intra = place == 0 and parity != 1, samples is not None
    bits = _Bits().ue(0, _I_SLICE if intra else _P_SLICE, 0).u(4, place)
    bits.u(1, parity is not None)
    if parity is not None:
        bits.u(1, parity)
    if idr:
        bits.ue(number // GROUP % 2)
    bits.u(8, 2 * place + (parity or 0))
    if not intra:
        bits.u(2, 0)
    bits.u(2 if idr else 1, 0).ue(0, 1)
    rows = _DOWN if parity is None else _DOWN // 2
    if samples is None:
        bits.ue(rows * _ACROSS)
    else:
        for row in range(rows):
            for column in range(_ACROSS):
                bits.ue(_PCM_IN_I).align().raw(_macroblock(samples, row, column))
    return bits.unit(5 if idr else 1, 2)


def _samples(number: int) -> NDArray[np.uint8]:
    """A frame whose two fields are of two moments."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return (16 + (3 * x + 5 * y + 17 * (2 * number + y % 2)) % 220).astype(np.uint8)


def paff_stream(frames: int = 24) -> bytes:
    """An Annex B stream of `frames` frames of 64×64, 25 a second, top field first."""
    out = bytearray()
    for number in range(frames):
        picture, place = _samples(number), number % GROUP
        out += _headers() if place == 0 else b""
        if place % 4 == 3:
            out += _slice(number, picture, None)
        else:
            out += _slice(number, np.ascontiguousarray(picture[::2]), 0)
            out += _slice(number, None if place % 2 == 0 else np.ascontiguousarray(picture[1::2]), 1)
    return bytes(out)
