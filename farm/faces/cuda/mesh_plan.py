"""One face that is to be painted by mesh-warp on the device: all that 478 points and a square of 128 pixels tell.

These are the numbers of `farm.faces.meshwarp.swap`, asked for from the same functions; what is done to every pixel with
them is the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from farm.faces import hands, lids, meshwarp
from farm.faces.bank import Bank, coarse
from farm.faces.bankpath import Shares
from farm.faces.cuda.raster import Drawing
from farm.faces.cuda.surface import Floats
from farm.faces.dressing import dressed
from farm.faces.eyecolour import EyeColour, Patch
from farm.faces.identity import PreparedIdentity
from farm.faces.mesh import VERTICES
from farm.faces.meshwarp import SwapSettings
from farm.faces.target import Target
from farm.faces.texture import Mask, Texture, blurred
from farm.faces.tones import light_of
from farm.faces.views import Box
from farm.media.frame import Frame


@dataclass(frozen=True, slots=True)
class MeshFace:
    """A face with everything that the device is told of it.

    place: the frame in its batch. shares: of the identity's bank, None for the one face that it is. far: how far the
    eyes are shut. width: of the face, pixels. tones: float32[64, 64, 10]. fields: float32[128, 128, 2]. kept: float32
    [h, w], what stays the plate's, hard edges. clear: float32[h, w], where no hand is; None without hands. lashes:
    small pictures on the canvas. eyes: the colours that the plate's eyes take on.
    """

    place: int
    identity: PreparedIdentity
    shares: Shares | None
    strength: float
    box: Box
    drawing: Drawing
    far: lids.Shut
    width: float
    tones: Floats
    fields: Floats
    kept: Mask
    clear: Mask | None
    lashes: list[Patch]
    eyes: EyeColour

    @property
    def pixels(self) -> int:
        return self.kept.size

    @property
    def side(self) -> int:
        """Of the identity's texture."""
        return len(self.identity.detail) if self.shares is None else int(self.identity.bank.details.shape[1])


def mesh_face(
    place: int,
    plate: Frame,
    target: Target,
    identity: PreparedIdentity,
    shares: Shares | None,
    settings: SwapSettings,
    seen: Callable[[Box], Texture],
) -> MeshFace:
    """The plan of a face whose `meshwarp.strength_of` is not 0.

    `plate` tells the frame's size; `seen` gives R'G'B' of a box of it, asked for only where hands are near.
    """
    moved = meshwarp.reproportioned(target, identity, settings.proportions)
    box = meshwarp.box_of(plate, moved, target)
    origin = np.array([*box[:2], 0], np.float64)
    points, source = moved - origin, target.points - origin
    shape = (box[3] - box[1], box[2] - box[0])
    width = float(np.ptp(points[:VERTICES, :2], axis=0).max())
    shown = identity if shares is None else dressed(_small(identity), shares)
    light = light_of(target, shown, settings.light_scale)
    reach = meshwarp.reach_of(target)
    far = lids.shut(source) if identity.lids is not None else (0.0, 0.0)
    return MeshFace(
        place,
        identity,
        shares,
        meshwarp.strength_of(target, settings),
        box,
        Drawing.of(points, source, shape),
        far,
        width,
        np.dstack([light.own, light.plate, light.ratios()]).astype(np.float32),
        np.dstack([reach * meshwarp.below_hairline(), reach]).astype(np.float32),
        meshwarp.kept_of(points, shape, width),
        _clear(target, seen(box), origin[:2], width) if target.hands else None,
        lids.lashes(points, far, width, shape),
        EyeColour.of(target, shown, points, shape, settings.iris),
    )


def _clear(target: Target, rgb: Texture, origin: NDArray[np.float64], width: float) -> Mask:
    clear = np.ones(rgb.shape[:2], np.float32)
    for hand in target.hands:
        clear *= 1 - blurred(hands.outline(hand, rgb, origin), max(0.5, 0.008 * width))
    return clear


@lru_cache(maxsize=4)
def _coarse_bank(bank: Bank) -> Bank:
    """The bank at analysis size: broad tones need no more."""
    details = [coarse(detail.astype(np.float32)) for detail in bank.details]
    return replace(bank, details=np.round(details).astype(np.uint8))


def _small(identity: PreparedIdentity) -> PreparedIdentity:
    return replace(identity, bank=_coarse_bank(identity.bank))
