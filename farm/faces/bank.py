"""The bank: what pictures and clips of one person show, frame by frame, each frame once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.bare import bare_skin, bared, facing, in_view
from farm.faces.candidate import Candidate
from farm.faces.expression import TRAITS, Traits, column
from farm.faces.texture import Mask, Texture, atlas, shading, smoothstep, unwrap

MOST = 40
"""Frames of a bank."""

REGIONS = ("face", "eyes", "mouth")
"""Parts that may come from different frames; "face" is all that the other two are not."""

_ALIKE = 0.16
_COARSE_SIDE = 128
_FINE, _SMALL = 512, 256
_LIGHT_SIGMA = 0.12
_SHARPER = 1.1
_TURNED = (0.1, 0.4)
"""From how far it faces the camera a place is taken from a frame, and wholly (`facing`)."""
_HAIR_IN = 0.3
"""Share of the frames that must see hair in a place."""

_EYE_SHAPES = ("eyeBlink", "eyeSquint", "eyeWide", "browDown", "browOuterUp")
_MOUTH_SHAPES = (
    *("mouthSmile", "mouthFrown", "mouthUpperUp", "mouthLowerDown", "mouthPress", "mouthStretch", "mouthDimple"),
)
_MOUTH_ALONE = (
    *("mouthPucker", "mouthFunnel", "mouthRollLower", "mouthRollUpper", "mouthShrugLower", "mouthShrugUpper"),
    *("mouthClose", "mouthLeft", "mouthRight"),
)


def _both(names: Iterable[str], weight: float) -> dict[str, float]:
    return {f"{name}{side}": weight for name in names for side in ("Left", "Right")}


_WEIGHTS: dict[str, dict[str, float]] = {
    "face": {
        "yaw": 1 / 14,
        "pitch": 1 / 14,
        "jawOpen": 0.8,
        "browInnerUp": 0.7,
        "cheekPuff": 0.7,
        "mouthPucker": 0.4,
        **_both(("mouthSmile", "cheekSquint", "noseSneer", "browDown"), 0.7),
    },
    "eyes": {
        "yaw": 1 / 25,
        "pitch": 1 / 25,
        "browInnerUp": 1.0,
        "gazeAcross": 0.5,
        "gazeUp": 1.0,
        **_both(_EYE_SHAPES, 1.0),
        **_both(("eyeLookDown",), 0.6),
    },
    "mouth": {
        "yaw": 1 / 25,
        "pitch": 1 / 25,
        "jawOpen": 2.0,
        **_both(_MOUTH_SHAPES, 0.7),
        **dict.fromkeys(_MOUTH_ALONE, 0.7),
    },
}
"""How much a trait's difference counts for a region; 1 in total is a frame that plainly does not fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """Frames that differ, the one that all others are lit like first.

    Attributes
    ----------
    traits: float32[n, 57], see `expression.TRAITS`.
    clips, seconds: int32[n], float32[n]: where each frame is from; pictures are clips of one frame.
    sharpness: float32[n], 0..1, against the sharpest of the same clip.
    details: uint8[n, s, s, 3] RGB, faces unrolled, hair taken out, in the first frame's light.
    skins: uint8[n, 128, 128], where they are the frame's own skin.
    """

    traits: NDArray[np.float32]
    clips: NDArray[np.int32]
    seconds: NDArray[np.float32]
    sharpness: NDArray[np.float32]
    details: NDArray[np.uint8]
    skins: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.traits)

    @classmethod
    def empty(cls) -> Bank:
        """Nothing to choose from: the identity is its one face."""
        none, pictures = np.zeros(0, np.float32), np.zeros((0, _COARSE_SIDE, _COARSE_SIDE), np.uint8)
        traits = np.zeros((0, len(TRAITS)), np.float32)
        return cls(traits, none.astype(np.int32), none, none, np.repeat(pictures[..., None], 3, axis=3), pictures)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Arrays by name, for a NumPy archive."""
        return {f"bank_{name}": getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]]) -> Bank:
        return cls(**{name: arrays[f"bank_{name}"] for name in cls.__slots__})  # type: ignore[arg-type]


def features(traits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Traits (n, 57) as points (3, n, 57) whose squared distance says how ill two frames fit, by region."""
    scale = np.zeros((len(REGIONS), len(TRAITS)), np.float32)
    for row, region in enumerate(REGIONS):
        for name, weight in _WEIGHTS[region].items():
            scale[row, column(name)] = weight
    return np.asarray(traits[None] * scale[:, None], np.float32)


class Gatherer:
    """Keeps the frames that tell something new, in bounded memory, in the order in which they come."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: list[tuple[Candidate, NDArray[np.float32], float]] = []

    def add(self, candidate: Candidate) -> None:
        """Keep it if no kept frame is like it, or if it is plainly sharper than the one that is."""
        entry = (candidate, _spot(candidate.traits), candidate.sharpness)
        if self._kept:
            gaps = [_gap(entry[1], spot) for _, spot, _ in self._kept]
            nearest = int(np.argmin(gaps))
            if gaps[nearest] < _ALIKE:
                same_clip = self._kept[nearest][0].clip == candidate.clip
                if same_clip and entry[2] > _SHARPER * self._kept[nearest][2]:
                    self._kept[nearest] = entry
                return
        self._kept.append(entry)
        if len(self._kept) > self._most:
            self._drop_one()

    @property
    def kept(self) -> list[Candidate]:
        return [candidate for candidate, _, _ in self._kept]

    def _drop_one(self) -> None:
        """Of the two frames most alike the less sharp one goes."""
        spots = np.array([spot for _, spot, _ in self._kept])
        gaps = ((spots[:, None] - spots[None]) ** 2).sum(axis=2)
        gaps[np.tril_indices(len(gaps))] = np.inf
        first, second = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
        worse = first if self._kept[first][2] < self._kept[second][2] else second
        self._kept.pop(int(worse))


def make_bank(candidates: list[Candidate], base: Candidate) -> Bank:
    """Unroll the candidates, `base` first, and put all in its light."""
    ordered = [base, *(candidate for candidate in candidates if candidate is not base)]
    side = _FINE if max(c.size for c in ordered) > 0.6 * _SMALL else _SMALL
    seen = np.array([_rounded(unwrap(_rgb(face.picture), face.points, side)) for face in ordered])
    known = _agreed(np.array([bare_skin(coarse(_floats(texture))) for texture in seen]))
    known = np.array([in_view(skin, face.points) for skin, face in zip(known, ordered, strict=True)])
    details = np.zeros_like(seen)
    wanted = shading(coarse(_floats(seen[0])), _plain(known[0]), _LIGHT_SIGMA)
    first = bared(_floats(seen[0]), known[0])
    for number, face in enumerate(ordered):
        texture = _floats(seen[number])
        light = shading(coarse(texture), _plain(known[number]), _LIGHT_SIGMA)
        ratio = np.clip((wanted + 0.03) / (light + 0.03), 0.5, 2.0).astype(np.float32)
        relit = bared(np.asarray(texture * _sized(ratio, side), np.float32), known[number])
        shown = _sized(smoothstep(facing(face.points), *_TURNED), side)[..., None] if number else np.float32(1)
        details[number] = _rounded(np.asarray(first + (relit - first) * shown, np.float32))
    return Bank(
        traits=np.array([candidate.traits for candidate in ordered], np.float32),
        clips=np.array([candidate.clip for candidate in ordered], np.int32),
        seconds=np.array([candidate.seconds for candidate in ordered], np.float32),
        sharpness=_sharpness(ordered),
        details=details,
        skins=_rounded(known),
    )


def _sharpness(candidates: list[Candidate]) -> NDArray[np.float32]:
    """0..1, against the sharpest of the same clip."""
    sharp = np.array([candidate.sharpness for candidate in candidates], np.float32)
    clips = np.array([candidate.clip for candidate in candidates])
    for clip in np.unique(clips):
        sharp[clips == clip] /= max(1e-6, float(sharp[clips == clip].max()))
    return sharp


def _agreed(known: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bare skin (n, s, s): what a good part of the frames calls hair over the forehead is hair in all of them."""
    common = np.quantile(known, _HAIR_IN, axis=0)
    brow = int(np.flatnonzero(atlas(known.shape[1]).brows.max(axis=1) > 0.5)[0])
    together = known.copy()
    together[:, :brow] = np.minimum(known, common)[:, :brow]
    return together


def coarse(detail: Texture) -> Texture:
    """An unrolled face at analysis size."""
    return np.asarray(cv2.resize(detail, (_COARSE_SIDE, _COARSE_SIDE), interpolation=cv2.INTER_AREA), np.float32)


def _spot(traits: Traits) -> NDArray[np.float32]:
    """One place for all regions."""
    return np.asarray(features(traits[None])[:, 0].ravel(), np.float32)


def _gap(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(((first - second) ** 2).sum())


def _plain(known: Mask) -> Mask:
    place = atlas(_COARSE_SIDE)
    return np.asarray(known * (1 - place.features) + 1e-3 * place.inside, np.float32)


def _sized(values: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    return np.asarray(cv2.resize(values, (side, side), interpolation=cv2.INTER_LINEAR), np.float32)


def _rgb(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(picture[:, :, ::-1])


def _floats(values: NDArray[np.uint8]) -> NDArray[np.float32]:
    return values.astype(np.float32) / np.float32(255)


def _rounded(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.clip(np.round(values * 255), 0, 255).astype(np.uint8)
