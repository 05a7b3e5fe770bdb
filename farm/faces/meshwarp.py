"""The bundled swapper: the identity's skin over the plate's head, triangle by triangle.

What is put in: skin, brows, nose and lips of the identity, in the plate's light, on a head that is given the
identity's proportions inside its own outline. What stays the plate's: pose, expression, eyeballs, the inside of the
mouth, fine grain, hair, hands, and everything outside the mask, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from farm.faces import eyes, hands, lids
from farm.faces.eyecolour import EyeColour
from farm.faces.geometry import HeadPose, placement
from farm.faces.identity import PreparedIdentity
from farm.faces.mesh import INNER_LIPS, LEFT_EYE, OVAL, RIGHT_EYE, VERTICES, canonical_mesh, rasterise
from farm.faces.sharpness import clear_enough
from farm.faces.target import Patch, Target
from farm.faces.texture import (
    SIZE,
    Mask,
    Texture,
    atlas,
    blurred,
    filled_outline,
    sampled,
    smoothstep,
)
from farm.faces.tones import light_of
from farm.faces.views import Box, clipped
from farm.media.colour import paste_rgb, region_to_rgb
from farm.media.frame import Frame
from farm.media.tonemap import tone_map_of

_MIN_STRENGTH, _LARGE = 0.02, 360
_EYES_RIGID, _MOUTH_RIGID = 0.5, 0.75
_FARTHER, _EYES_FARTHER = 1.2, 1.3
"""How many times as far features move as two faces at rest differ: the outline, against which they are seen, stays."""
_FINE_SIGMA = 1.5
_MOST_SHARPER = 2.5
"""How many times its fine detail a skin may be given at most."""
_AS_SHARP, _AS_SHARP_IN_GRAIN = 0.78, 0.92
"""Share of the plate's fine detail that is aimed at: a swap of the full share looks etched beside soft hair, and what
is amplified flickers. In a grainy plate neither is seen, and a soft face is."""
_GRAINY = (0.036, 0.05)
"""Root mean square of a face's fine detail, luma 0..1, from where a plate is a little grainy, and wholly."""
KEPT_EDGE = 0.003
"""How soft the edge of what stays the plate's is, as a share of the face: more closes an eye ten pixels high."""
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)


class SwapSettings(BaseModel):
    """Settings of the processor "swap" with the model "mesh-warp"; shares are 0 to 1 unless said otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strength: float = Field(default=1.0, ge=0, le=1)
    """How much of the identity is put in, at most."""
    proportions: float = Field(default=1.0, ge=0, le=1)
    """How far features move to where the identity has them; 0 keeps the plate's."""
    fitted: bool = True
    """Whether the identity's form is fitted on the product's own heads when it is prepared (`farm.faces.likeness`)."""
    light_scale: float = Field(default=0.3, ge=0.03, le=1)
    """Size of the patches of light taken from the plate, as a share of the unrolled face; smaller follows more."""
    grain: float = Field(default=0.5, ge=0, le=1)
    """How much of the plate's finest detail (grain, pores) lies over the new skin."""
    sharpness: float = Field(default=1.0, ge=0, le=1)
    """How far a skin that is softer than the plate is sharpened to match."""
    iris: float = Field(default=1.0, ge=0, le=1)
    """How far the plate's irises, and the whites around them, take on the identity's colour."""
    max_yaw: float = Field(default=70.0, ge=10, le=90)
    max_pitch: float = Field(default=55.0, ge=10, le=90)
    """Degrees beyond which a face is left as it is; the swap fades out over the 20 degrees before."""
    smallest: float = Field(default=16.0, ge=8)
    """Faces under this many pixels are left as they are."""
    min_sharpness: float = Field(default=0.015, ge=0, le=0.2)
    """Faces less sharp (see `farm.faces.sharpness`) are left as they are; the swap fades in up to twice that."""


def believable(pose: HeadPose, settings: SwapSettings) -> float:
    """Strength 0..1 by pose: full where the mesh holds, 0 where it does not."""
    yaw = 1 - smoothstep(np.array(abs(pose.yaw)), settings.max_yaw - 20, settings.max_yaw)
    pitch = 1 - smoothstep(np.array(abs(pose.pitch)), settings.max_pitch - 20, settings.max_pitch)
    return float(yaw * pitch)


def strength_of(target: Target, settings: SwapSettings) -> float:
    """How much is put in, 0..1; 0 where that is too little to be seen."""
    clear = clear_enough(target.sharpness, settings.min_sharpness)
    strength = settings.strength * believable(target.pose, settings) * clear
    return strength if strength >= _MIN_STRENGTH else 0.0


def box_of(frame: Frame, moved: NDArray[np.float64], target: Target) -> Box:
    """The box of the frame (x0, y0, x1, y1) in which the face lies with its landmarks where they were and `moved`."""
    both = np.vstack([moved[:VERTICES, :2], target.points[:VERTICES, :2]])
    return clipped(frame, np.concatenate([both.min(axis=0), both.max(axis=0)]), margin=2)


def swap(frame: Frame, target: Target, identity: PreparedIdentity, settings: SwapSettings) -> Patch | None:
    """Put `identity` onto `target` in `frame`, in place; None where nothing was changed."""
    strength = strength_of(target, settings)
    if strength == 0:
        return None
    moved = reproportioned(target, identity, settings.proportions)
    box = box_of(frame, moved, target)
    origin = np.array(box[:2], np.float64)
    region, tones = region_to_rgb(frame, box), tone_map_of(frame.colour)
    shown = region if tones.plain else tones.seen(region)
    canvas = _Canvas.of(shown, moved - [*origin, 0], target.points - [*origin, 0])
    detail, far = identity.detail, lids.shut(canvas.source) if identity.lids is not None else (0.0, 0.0)
    if identity.lids is not None:
        detail = lids.with_lids(detail, identity.lids, far)
    skin = light_of(target, identity, settings.light_scale).fall_on(canvas, detail)
    own, whole = _masks(canvas, target)
    for hand in target.hands:
        covered = _softened(hands.outline(hand, canvas.rgb, origin), 0.008 * canvas.width)
        own, whole = own * (1 - covered), whole * (1 - covered)
    plate = canvas.displaced_plate()
    skin = _with_grain(skin, plate, canvas, identity, settings.grain)
    skin = _sharpened(skin, plate, canvas, own, settings.sharpness)
    skin = lids.with_lashes(skin, plate, canvas.points, far, canvas.width)
    EyeColour.of(target, identity, canvas.points, plate.shape[:2], settings.iris).paint(plate)
    face = plate + (skin - plate) * own[..., None]
    if not np.isfinite(face).all():
        return None
    mask = np.asarray(whole * np.float32(strength), np.float32)
    mask[mask < 1 / 512] = 0
    made = np.clip(face, 0, 1)
    paste_rgb(frame, box, made if tones.plain else tones.back(made, region), mask)
    return Patch(box, mask)


def step_of(shape: tuple[int, int]) -> int:
    """Pixels of a region (h, w) for one of the raster's."""
    return 2 if max(shape) > _LARGE else 1


@dataclass(frozen=True, slots=True)
class _Canvas:
    """The region being painted: its RGB, the mesh where it goes (`points`) and where the plate has it (`source`)."""

    rgb: Texture
    points: NDArray[np.float64]
    source: NDArray[np.float64]
    inside: NDArray[np.bool_]
    uv: NDArray[np.float32]
    plate_spot: NDArray[np.float32]
    spots: dict[tuple[int, int], NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def of(cls, rgb: Texture, points: NDArray[np.float64], source: NDArray[np.float64]) -> _Canvas:
        """Rasterise the mesh; large faces on every other pixel, for the maps are linear between the mesh's edges."""
        height, width = rgb.shape[:2]
        step = step_of((height, width))
        coarse = (-(-height // step) + step - 1, -(-width // step) + step - 1)
        drawn = points[:VERTICES] / step
        raster = rasterise(drawn, coarse, depth=drawn[:, 2])
        values = raster.interpolate(np.hstack([canonical_mesh().uv, source[:VERTICES, :2]]))
        row, column = np.mgrid[: coarse[0], : coarse[1]].astype(np.float32) * step
        outside = ~raster.inside
        values[outside, 2], values[outside, 3] = column[outside], row[outside]
        inside = raster.inside.astype(np.float32)
        if step > 1:
            values, inside = _spread(values, (height, width)), _spread(inside, (height, width))
        return cls(rgb, points, source, inside > 0.5, values[..., :2], values[..., 2:])

    @property
    def width(self) -> float:
        """The face's width or height, whichever is larger, in pixels."""
        return float(np.ptp(self.points[:VERTICES, :2], axis=0).max())

    def draw(self, texture: NDArray[np.float32], *, fine: bool = False) -> NDArray[np.float32]:
        """A texture laid onto the face; one without detail need not be `fine`."""
        height, width = self.inside.shape
        step = 1 if fine or max(height, width) <= _LARGE else 2
        drawn = np.asarray(sampled(texture, self._spot(len(texture), step), cubic=fine), np.float32)
        return drawn if step == 1 else _spread(drawn, (height, width))

    def _spot(self, size: int, step: int) -> NDArray[np.float32]:
        """Where each `step`-th pixel lies in a texture of `size`; several textures are of one size."""
        if (size, step) not in self.spots:
            self.spots[size, step] = np.ascontiguousarray(self.uv[::step, ::step]) * size - 0.5
        return self.spots[size, step]

    def displaced_plate(self) -> Texture:
        """The plate with its features moved to where the new face has them, a picture of its own."""
        if np.array_equal(self.points, self.source):
            return self.rgb.copy()
        return np.asarray(sampled(self.rgb, self.plate_spot, cubic=True), np.float32)


def _spread(values: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Values of every other pixel, (0, 0) among them, on all pixels of `shape`."""
    half = np.array([[0.5, 0, 0], [0, 0.5, 0]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(values, half, shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE), np.float32
    )


@cache
def _give() -> NDArray[np.float64]:
    """How freely each vertex may move (468,): not at all at the outline, so that the head keeps its form."""
    place = canonical_mesh().uv * SIZE - 0.5
    edge = sampled(atlas().edge, place[None].astype(np.float32))[0]
    return np.asarray(smoothstep(edge, 0, 0.15), np.float64)


@cache
def _mobile() -> tuple[NDArray[np.float64], ...]:
    """How much each vertex (468,) belongs to the mouth and to either eye.

    Lips and lids move, and so have no form that one picture could tell: they are shifted as a whole for the most part.
    """
    x, y = canonical_mesh().vertices[:, :2].astype(np.float64).T
    places = ((0.0, -4.2, 3.0, 1.8), (-3.18, 2.63, 1.5, 0.75), (3.18, 2.63, 1.5, 0.75))
    return tuple(np.exp(-(((x - u) / w) ** 2) - ((y - v) / h) ** 2) for u, v, w, h in places)


def reproportioned(target: Target, identity: PreparedIdentity, share: float) -> NDArray[np.float64]:
    """The landmarks with the identity's proportions: features move by what the two faces at rest differ."""
    if target.rest is None or share == 0:
        return target.points
    offset = _inside(identity.shape, target.rest) - target.rest
    for number, near in enumerate(_mobile()):
        shift = (offset * near[:, None]).sum(axis=0) / near.sum()
        if number == 0:
            shift[0] = 0  # both mouths lie in the middle; a lopsided smile is no reason to move it
        rigid, more = (_MOUTH_RIGID, 0.0) if number == 0 else (_EYES_RIGID, _EYES_FARTHER / _FARTHER - 1)
        whole = np.clip(1.6 * near, 0, 1)[:, None]
        offset = (offset + (shift - offset) * rigid * whole) * (1 + more * whole)
    offset = offset * _give()[:, None] * (share * _FARTHER)
    offset[:, 2] /= 2
    turned = placement(target.points).turn(offset)
    moved = target.points.copy()
    moved[:VERTICES] += turned
    for iris, outline in ((slice(468, 473), RIGHT_EYE), (slice(473, 478), LEFT_EYE)):
        moved[iris] += turned[list(outline)].mean(axis=0)
    return moved


def _inside(form: NDArray[np.float64], head: NDArray[np.float64]) -> NDArray[np.float64]:
    """`form` in the size and at the place in which its outline lies nearest to that of `head`, both (468, 3), upright.

    The outline stays the plate's, so a feature belongs where it lies within the person's own outline.
    """
    own, given = form[list(OVAL)], head[list(OVAL)]
    middle, place = own.mean(axis=0), given.mean(axis=0)
    spread = ((given - place)[:, :2] ** 2).sum() / ((own - middle)[:, :2] ** 2).sum()
    return np.asarray((form - middle) * np.sqrt(spread) + place)


def _with_grain(
    skin: Texture, plate: Texture, canvas: _Canvas, identity: PreparedIdentity, share: float
) -> NDArray[np.float32]:
    """`skin` with the plate's detail that is finer than the identity's picture can hold."""
    if share == 0:
        return skin
    luma = plate @ _LUMA
    fine = luma - blurred(luma, grain_sigma(canvas.width, identity))
    # Grain and pores are faint; edges of lashes, nostrils and hair are not, and must not be copied.
    faint = np.float32(share) * fine / (1 + (fine / np.float32(0.05)) ** 2)
    return np.asarray(skin + (faint * canvas.draw(plain_skin()))[..., None], np.float32)


def grain_sigma(width: float, identity: PreparedIdentity) -> float:
    """Pixels under which a face of `width` shows detail that the identity's picture cannot hold."""
    return float(np.clip(0.5 * width / identity.resolution, 0.7, 6.0))


@cache
def plain_skin() -> Mask:
    """Where fine detail is pores and grain; that of brows, lids and lips is the person's."""
    place = atlas()
    return np.asarray(blurred(1 - place.features, SIZE / 128) * place.inside, np.float32)


def _sharpened(skin: Texture, plate: Texture, canvas: _Canvas, own: Mask, share: float) -> NDArray[np.float32]:
    """`skin` with such fine detail that the face, with `skin` laid over `plate` by `own` (h, w), has the plate's."""
    inner = canvas.draw(inner_face()) * own > 0.5
    if share == 0 or not inner.any():
        return skin
    fine = _fine(skin @ _LUMA)
    shows = own[inner]
    has = shows * fine[inner] + (1 - shows) * _fine(plate @ _LUMA)[inner]
    adds = shows * _fine(fine)[inner]
    wanted = float((_fine(canvas.rgb @ _LUMA)[inner] ** 2).mean())
    more = sharpening(float((has**2).mean()), float((adds**2).mean()), float((has * adds).mean()), wanted)
    return np.asarray(skin + (fine * np.float32(share * more))[..., None], np.float32)


def sharpening(has: float, adds: float, both: float, plate: float) -> float:
    """How many times a face's own fine detail is added to it; a plate blurred by motion sharpens nothing.

    Given are mean squares in the inner face: of the detail that the face has (c), of what one time more adds where it
    shows (e), of their product, and of the plate's detail. c + m·e has the wanted power for the m that solves a
    quadratic equation.
    """
    power = has + 1e-9
    grainy = float(smoothstep(np.sqrt(np.array(plate)), *_GRAINY))
    share = _AS_SHARP + (_AS_SHARP_IN_GRAIN - _AS_SHARP) * grainy
    aim = min(share**2 * plate, _MOST_SHARPER**2 * power)
    a = adds + 1e-12
    return float((np.sqrt(max(0.0, both * both + a * (aim - power))) - both) / a) if aim > power else 0.0


def _fine(luma: Mask) -> Mask:
    return np.asarray(luma - blurred(luma, _FINE_SIGMA), np.float32)


@cache
def inner_face() -> Mask:
    return np.asarray((atlas().edge > 0.06).astype(np.float32))


def _masks(canvas: _Canvas, target: Target) -> tuple[Mask, Mask]:
    """Where the identity's skin goes, and where anything may change at all (h, w)."""
    width, reach = canvas.width, reach_of(target)
    whole = canvas.draw(reach) * canvas.inside
    own = _softened(canvas.draw(reach * below_hairline()) * canvas.inside, 0.004 * width)
    own = own * (1 - _softened(kept_of(canvas.points, own.shape, width), KEPT_EDGE * width))
    return own, _softened(smoothstep(whole, 0, 0.5), 0.004 * width)


def reach_of(target: Target) -> Mask:
    """Where an unrolled face may be changed: not at its edge, and not where it is no skin."""
    return smoothstep(atlas().edge, 0.003, 0.03) * _shrunk(target.skin)


def kept_of(points: NDArray[np.float64], shape: tuple[int, int], width: float) -> Mask:
    """What stays the plate's inside a face of `width` with landmarks `points`: eyeballs and mouth, on a canvas."""
    # A little inside the lids: lashes and their paint are the identity's. But irises are whole, or they seem to follow
    # the plate's by half, with those of the identity at their upper and lower ends.
    balls = cv2.erode(eyes.eyeballs(points, shape), _disc(round(0.005 * width)))
    for rows, columns, iris in eyes.irises(points, shape):
        balls[rows, columns] = np.maximum(balls[rows, columns], iris)
    return np.maximum(balls, filled_outline(points[list(INNER_LIPS)], shape)).astype(np.float32)


@cache
def below_hairline() -> Mask:
    """The upper forehead stays the plate's: its hairline would not fit another's."""
    row = np.arange(SIZE, dtype=np.float32)[:, None] / SIZE
    return np.repeat(smoothstep(row, 0.11, 0.17), SIZE, axis=1)


def _shrunk(mask: Mask) -> Mask:
    pixels = len(mask) / 128
    return blurred(np.asarray(cv2.erode(mask, np.ones((3, 3), np.uint8)), np.float32), 1.5 * pixels)


def _disc(radius: int) -> NDArray[np.uint8]:
    side = 2 * radius + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


def _softened(mask: Mask, sigma: float) -> Mask:
    return blurred(mask, max(0.5, sigma))
