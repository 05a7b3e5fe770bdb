"""What models are shown of a plate, and how their answer becomes the plate's own signal again.

Models (detectors, recognisers, swappers, restorers) know pictures in BT.709 colours and a display gamma, 0..1. A plate
in PQ or HLG, or in wider primaries, is tone-mapped for them: light relative to diffuse white, BT.709 primaries, a gamma
of 2.2, and above .8 a logarithmic shoulder that leaves room for the plate's peak. The way back undoes all of it, in
floating point. What the model was not shown (colours outside BT.709) is put back on top, so that an answer equal to the
question changes nothing.

PQ: SMPTE ST 2084, diffuse white 203 cd/m² (ITU-R BT.2408). HLG: ITU-R BT.2100 inverse OETF, scene light, diffuse white
at 75 % signal. Plates with other transfers and BT.709-like primaries are shown as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.media.facts import ColourFacts

Floats = NDArray[np.float32]

_GAMMA = 2.2
_KNEE = 0.8
_WHITE_PQ = 203 / 10000
_WHITE_HLG = 0.26496256
_HLG_A, _HLG_B, _HLG_C = 0.17883277, 0.28466892, 0.55991073
_PQ_M1, _PQ_M2 = 2610 / 16384, 2523 / 4096 * 128
_PQ_C1, _PQ_C2, _PQ_C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32

_TO_XYZ = {
    "bt709": ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)),
    "bt2020": ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    "smpte432": ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}
"""x, y of red, green and blue; the white is D65 for all (ITU-R BT.709, BT.2020, SMPTE EG 432-1)."""


@dataclass(frozen=True)
class ToneMap:
    """One plate's way to the networks and back; `tone_map_of` makes it.

    Attributes
    ----------
    transfer: "smpte2084", "arib-std-b67" or "" for a display gamma. matrix: (3, 3) to BT.709 light, None for none.
    peak: the plate's greatest light relative to diffuse white.
    """

    transfer: str
    matrix: Floats | None
    peak: float

    @property
    def plain(self) -> bool:
        return not self.transfer and self.matrix is None

    def seen(self, rgb: Floats) -> Floats:
        """The plate's R'G'B' (..., 3) as networks know pictures, clipped to 0..1."""
        return np.clip(self._shown(rgb), 0, 1)

    def back(self, made: Floats, rgb: Floats) -> Floats:
        """A network's picture `made` in the plate's R'G'B'; `rgb` is the plate where it was made, of the same shape.

        Light is limited to the brightest that the plate has there or diffuse white: a network that paints white means
        white, not ten thousand candelas.
        """
        if self.plain:
            return np.asarray(made + (rgb - np.clip(rgb, 0, 1)), np.float32)
        shown = self._shown(rgb)
        unseen = rgb - self._plate(np.clip(shown, 0, 1))
        white = float(self._shouldered(np.ones(1))[0]) if self.transfer else 1.0
        limit = max(float(shown.max(initial=0.0)), white)
        return np.asarray(self._plate(np.minimum(made, np.float32(limit))) + unseen, np.float32)

    def glimpse(self, rgb: Floats) -> NDArray[np.uint8]:
        """`seen` in 8 bits, for previews: curves by tables, within two codes of it and many times as fast."""
        if self.plain:
            return np.asarray(np.clip(rgb * 255 + 0.5, 0, 255), np.uint8)
        light, shown = _tables(self.transfer, self.peak)
        index = np.clip(np.rint(rgb * (_CODES - 1)), 0, _CODES - 1).astype(np.uint16)
        linear = light[index]
        if self.matrix is not None:
            linear = _turned(linear, self.matrix)
        encoded = cv2.pow(np.maximum(linear, 0), 1 / _GAMMA)
        top = np.float32(self.peak ** (1 / _GAMMA))
        place = np.minimum(np.rint(encoded * ((_STEPS - 1) / top)), _STEPS - 1).astype(np.uint16)
        return np.asarray(shown[place], np.uint8)

    def _shown(self, rgb: Floats) -> Floats:
        if self.plain:
            return np.asarray(rgb, np.float32)
        light = self._light(rgb)
        if self.matrix is not None:
            light = _turned(light, self.matrix)
        encoded = np.sign(light) * np.abs(light) ** (1 / _GAMMA)
        return self._shouldered(encoded) if self.transfer else np.asarray(encoded, np.float32)

    def _plate(self, shown: Floats) -> Floats:
        encoded = self._unshouldered(shown) if self.transfer else shown
        light = np.asarray(np.sign(encoded) * np.abs(encoded) ** _GAMMA, np.float32)
        if self.matrix is not None:
            light = _turned(light, np.linalg.inv(self.matrix).astype(np.float32))
        return self._signal(light)

    def _light(self, rgb: Floats) -> Floats:
        """Light relative to diffuse white; 0 stays 0."""
        signal = np.asarray(rgb, np.float64)
        if self.transfer == "smpte2084":
            root = np.clip(signal, 0, None) ** (1 / _PQ_M2)
            light = (np.maximum(root - _PQ_C1, 0) / (_PQ_C2 - _PQ_C3 * root)) ** (1 / _PQ_M1) / _WHITE_PQ
        elif self.transfer == "arib-std-b67":
            low, high = np.clip(signal, 0, 0.5), np.maximum(signal, 0.5)
            light = np.where(signal <= 0.5, low**2 / 3, (np.exp((high - _HLG_C) / _HLG_A) + _HLG_B) / 12) / _WHITE_HLG
        else:
            light = np.sign(signal) * np.abs(signal) ** _GAMMA
        return np.asarray(light, np.float32)

    def _signal(self, light: NDArray[np.floating]) -> Floats:
        """The inverse of `_light`; less than no light is none in PQ and HLG."""
        value = np.asarray(light, np.float64)
        if self.transfer == "smpte2084":
            power = np.clip(value * _WHITE_PQ, 0, 1) ** _PQ_M1
            signal = ((_PQ_C1 + _PQ_C2 * power) / (1 + _PQ_C3 * power)) ** _PQ_M2
        elif self.transfer == "arib-std-b67":
            scene = np.clip(value * _WHITE_HLG, 0, 1)
            bright = _HLG_A * np.log(12 * np.maximum(scene, 1 / 12) - _HLG_B) + _HLG_C
            signal = np.where(scene <= 1 / 12, np.sqrt(3 * scene), bright)
        else:
            signal = np.sign(value) * np.abs(value) ** (1 / _GAMMA)
        return np.asarray(signal, np.float32)

    def _shouldered(self, encoded: NDArray[np.floating]) -> Floats:
        top, bend = self.peak ** (1 / _GAMMA), _bend(self.peak)
        over = np.maximum(encoded - _KNEE, 0) / (top - _KNEE)
        high = _KNEE + (1 - _KNEE) * np.log1p(bend * over) / np.log1p(bend)
        return np.asarray(np.where(encoded > _KNEE, high, encoded), np.float32)

    def _unshouldered(self, shown: NDArray[np.floating]) -> Floats:
        top, bend = self.peak ** (1 / _GAMMA), _bend(self.peak)
        over = np.expm1(np.maximum(shown - _KNEE, 0) / (1 - _KNEE) * np.log1p(bend)) / bend
        return np.asarray(np.where(shown > _KNEE, _KNEE + over * (top - _KNEE), shown), np.float32)


@lru_cache(maxsize=32)
def tone_map_of(colour: ColourFacts) -> ToneMap:
    """The look of a plate by its colour tags."""
    wide = _to_709(colour.primaries) if colour.primaries in _TO_XYZ and colour.primaries != "bt709" else None
    if colour.transfer == "smpte2084":
        return ToneMap("smpte2084", wide, 1 / _WHITE_PQ)
    if colour.transfer == "arib-std-b67":
        return ToneMap("arib-std-b67", wide, 1 / _WHITE_HLG)
    return ToneMap("", wide, 1.0)


_CODES, _STEPS = 4096, 8192


@lru_cache(maxsize=8)
def _tables(transfer: str, peak: float) -> tuple[Floats, NDArray[np.uint8]]:
    """Light of `_CODES` signals 0..1, and the picture's 8-bit codes of `_STEPS` display-encoded lights 0..peak."""
    plain = ToneMap(transfer, None, peak)
    light = plain._light(np.linspace(0, 1, _CODES, dtype=np.float32))
    encoded = np.linspace(0, peak ** (1 / _GAMMA), _STEPS)
    shown = plain._shouldered(encoded) if transfer else encoded
    return light, np.asarray(np.clip(shown * 255 + 0.5, 0, 255), np.uint8)


@lru_cache(maxsize=8)
def _bend(peak: float) -> float:
    """How strongly the shoulder bends so that it leaves the knee without a corner: bend / log(1 + bend) = reach."""
    reach = (peak ** (1 / _GAMMA) - _KNEE) / (1 - _KNEE)
    bend = float(reach)
    for _ in range(200):
        bend = float(reach * np.log1p(bend))
    return bend


def _to_709(primaries: str) -> Floats:
    return np.asarray(np.linalg.inv(_xyz("bt709")) @ _xyz(primaries), np.float32)


def _xyz(primaries: str) -> NDArray[np.float64]:
    """RGB light to CIE XYZ, white D65 (SMPTE RP 177)."""
    columns = np.array([[x / y, 1, (1 - x - y) / y] for x, y in _TO_XYZ[primaries]]).T
    white = np.array([0.3127 / 0.3290, 1, (1 - 0.3127 - 0.3290) / 0.3290])
    return np.asarray(columns * np.linalg.solve(columns, white))


def _turned(light: Floats, matrix: Floats) -> Floats:
    flat = np.ascontiguousarray(light, np.float32).reshape(1, -1, 3)
    return np.asarray(cv2.transform(flat, matrix), np.float32).reshape(light.shape)
