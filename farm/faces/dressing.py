"""The face that one frame wears: bank frames mixed by their shares, region by region."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.bank import coarse
from farm.faces.bankpath import Shares
from farm.faces.identity import PreparedIdentity
from farm.faces.texture import SIZE, Mask, atlas, blurred

_EYES, _MOUTH = 1, 2


def dressed(identity: PreparedIdentity, shares: Shares) -> PreparedIdentity:
    """The identity with the detail, texture and skin that `shares` of its bank make."""
    bank = identity.bank
    side = bank.details.shape[1]
    whole = _mixed(bank.details, shares[0])
    skin = _mixed(bank.skins, shares[0])
    for number, place in ((_EYES, eyes_place), (_MOUTH, mouth_place)):
        if np.array_equal(shares[number], shares[0]):
            continue
        _lay_in(whole, bank.details, shares[number], place(side))
        _lay_in(skin, bank.skins, shares[number], place(SIZE))
    return replace(identity, detail=whole, texture=coarse(whole), skin=skin)


def _lay_in(whole: NDArray[np.float32], frames: NDArray[np.uint8], shares: NDArray[np.float32], place: Mask) -> None:
    rows, columns = np.flatnonzero(place.any(axis=1)), np.flatnonzero(place.any(axis=0))
    part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    weight = place[part] if whole.ndim == 2 else place[part][..., None]
    whole[part] += (_mixed(frames[(slice(None), *part)], shares) - whole[part]) * weight


def _mixed(frames: NDArray[np.uint8], shares: NDArray[np.float32]) -> NDArray[np.float32]:
    first, *others = np.flatnonzero(shares)
    total = frames[first] * np.float32(shares[first] / 255)
    for other in others:
        total += frames[other] * np.float32(shares[other] / 255)
    return np.asarray(total, np.float32)


@cache
def eyes_place(side: int) -> Mask:
    """Lids and brows, with a soft edge."""
    place = atlas(side)
    return _soft(np.maximum(place.eyes, place.brows), side, 0.035)


@cache
def mouth_place(side: int) -> Mask:
    return _soft(atlas(side).lips, side, 0.06)


def _soft(area: Mask, side: int, reach: float) -> Mask:
    radius = round(reach * side)
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    closed = cv2.morphologyEx(area, cv2.MORPH_CLOSE, disc)
    soft = blurred(np.asarray(cv2.dilate(closed, disc), np.float32), reach * side / 3)
    soft[soft < 1 / 512] = 0
    return np.asarray(soft * atlas(side).inside, np.float32)
