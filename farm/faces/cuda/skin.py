"""The identity's skin in the plate's light, its grain and its sharpness, on every face's canvas.

The arithmetic is that of `farm.faces.meshwarp` and `farm.faces.tones`, step by step: drawing (`Light.fall_on`), masks,
grain, fine detail, lashes and irises.
"""

from __future__ import annotations

import numpy as np

from farm.faces.cuda.canvas import Ints, faces_of
from farm.faces.cuda.surface import Floats
from farm.faces.texture import smoothstep

FINE_SIGMA = 1.5
LEAST = np.float32(1 / 512)
_LUMA = (np.float32(0.2126), np.float32(0.7152), np.float32(0.0722))


def luma_of(rgb: Floats) -> Floats:
    return np.asarray(_LUMA[0] * rgb[..., 0] + _LUMA[1] * rgb[..., 1] + _LUMA[2] * rgb[..., 2], np.float32)


def skin_draw(
    box: Ints,
    start: Ints,
    fine: int,
    broad: int,
    side: int,
    rgb: Floats,
    spots: Floats,
    textures: Floats,
    tones: Floats,
    fields: Floats,
    places: Floats,
    skin: Floats,
    plate: Floats,
    areas: Floats,
) -> None:
    """The twin: fills `skin`, `plate` (pixels, 3) and `areas` (pixels, 4) as skin.cu says."""
    half = np.float32(0.5)
    for face, (height, width), some in faces_of(box, start):
        u, v, x, y, there = spots[some].T
        detail = cubic_at(
            textures[face].reshape(fine, fine, 3), u * np.float32(fine) - half, v * np.float32(fine) - half
        )
        tone = linear_at(tones[face], u * np.float32(broad) - half, v * np.float32(broad) - half)
        a, b = u * np.float32(side) - half, v * np.float32(side) - half
        field, place = linear_at(fields[face], a, b), linear_at(places, a, b)
        finer = detail - tone[:, :3]
        skin[some] = tone[:, 3:6] + finer * np.where(finer < 0, tone[:, 6:9], tone[:, 9:])
        plate[some] = cubic_at(rgb[some].reshape(height, width, 3), x, y)
        inside = (there > 0.5).astype(np.float32)
        areas[some, 0] = field[:, 0] * inside
        areas[some, 1] = smoothstep(field[:, 1] * inside, 0, 0.5)
        areas[some, 2:] = place


def skin_spare(box: Ints, start: Ints, areas: Floats, kept: Floats, out: Floats) -> None:
    """The twin: where skin goes, without what stays the plate's, and where anything changes (pixels, 2)."""
    count = len(out)
    out[:, 0] = areas[:count, 0] * (np.float32(1) - kept[:count])
    out[:, 1] = areas[:count, 1]


def skin_luma(box: Ints, start: Ints, plate: Floats, luma: Floats) -> None:
    luma[:] = luma_of(plate[: len(luma)])


def skin_grain(
    box: Ints,
    start: Ints,
    areas: Floats,
    luma: Floats,
    soft: Floats,
    rgb: Floats,
    share: float,
    handed: Ints,
    clear: Floats,
    masks: Floats,
    skin: Floats,
    lumas: Floats,
) -> None:
    """The twin: grain onto `skin`, its and the plate's luma into `lumas`, hands out of `masks`."""
    for face, _, some in faces_of(box, start):
        fine = luma[some] - soft[some]
        far = fine / np.float32(0.05)
        skin[some] += (np.float32(share) * fine / (np.float32(1) + far * far) * areas[some, 2])[:, None]
        lumas[some] = np.stack([luma_of(skin[some]), luma[some], luma_of(rgb[some])], axis=1)
        if handed[face]:
            masks[some] *= clear[some, None]


def skin_fine(box: Ints, start: Ints, channels: int, soft: Floats, values: Floats, first: Floats) -> None:
    """The twin: `values` (pixels, channels) become what `soft` is not; the first channel goes into `first` as well."""
    values -= soft[: len(values)]
    first[:] = values[:, 0]


def skin_columns(
    box: Ints,
    start: Ints,
    areas: Floats,
    masks: Floats,
    fines: Floats,
    softer: Floats,
    across: int,
    sums: Floats,
) -> None:
    """The twin: sums (n, across, 5) by columns, see skin.cu."""
    sums[:] = 0
    for face, shape, some in faces_of(box, start):
        shows = masks[some, 0]
        inner = areas[some, 3] * shows > 0.5
        has = shows * fines[some, 0] + (1 - shows) * fines[some, 1]
        adds = shows * (fines[some, 0] - softer[some])
        own = fines[some, 2]
        parts = np.stack([np.ones_like(has), has * has, adds * adds, has * adds, own * own], axis=1) * inner[:, None]
        sums[face, : shape[1]] = parts.reshape(*shape, 5).sum(axis=0)


def skin_finish(
    box: Ints,
    start: Ints,
    numbers: Floats,
    patches: Ints,
    values: Floats,
    plate: Floats,
    masks: Floats,
    fines: Floats,
    skin: Floats,
    mask: Floats,
    flags: Ints,
) -> None:
    """The twin: `skin` becomes the face, clipped; fills `mask` (pixels) and raises `flags` (n, 2), see skin.cu."""
    for face, shape, some in faces_of(box, start):
        told, old = numbers[face], plate[some]
        lashes, dyed, white = (np.full(shape, begin, np.float32) for begin in (1, 0, 0))
        for eye in (0, 1):
            _each(patches[face, eye], values, lashes, np.multiply)
            _each(patches[face, 2 + eye], values, dyed, np.maximum)
            _each(patches[face, 4 + eye], values, white, np.maximum)
        dye = dyed.ravel() * (np.float32(1) - smoothstep(luma_of(old), 0.6, 0.85))
        under = old * (np.float32(1) + (told[2:5] - np.float32(1)) * dye[:, None])
        under *= np.float32(1) + (told[5:8] - np.float32(1)) * white.reshape(-1, 1)
        over = (skin[some] + fines[some, :1] * told[0]) * lashes.reshape(-1, 1)
        made = under + (over - under) * masks[some, :1]
        weight = masks[some, 1] * told[1]
        flags[face, 0] |= not np.isfinite(made).all()
        skin[some] = np.clip(made, 0, 1)
        mask[some] = np.where(weight < LEAST, np.float32(0), weight)
        flags[face, 1] |= bool(mask[some].any())


def _each(patch: Ints, values: Floats, canvas: Floats, join: np.ufunc) -> None:
    left, top, right, bottom, first = patch.tolist()
    if right > left and bottom > top:
        part = canvas[top:bottom, left:right]
        join(part, values[first : first + part.size].reshape(part.shape), out=part)


def linear_at(texture: Floats, x: Floats, y: Floats) -> Floats:
    """`texture` (side, side, channels), bilinear at (x, y), edges repeated: (n, channels)."""
    last = len(texture) - 1
    fx, fy = np.floor(x), np.floor(y)
    px, py = (x - fx)[:, None], (y - fy)[:, None]
    x0, y0 = fx.astype(np.int64), fy.astype(np.int64)
    x1, y1 = np.clip(x0 + 1, 0, last), np.clip(y0 + 1, 0, last)
    x0, y0 = np.clip(x0, 0, last), np.clip(y0, 0, last)
    one = np.float32(1)
    above = texture[y0, x0] * (one - px) + texture[y0, x1] * px
    below = texture[y1, x0] * (one - px) + texture[y1, x1] * px
    return np.asarray(above * (one - py) + below * py, np.float32)


def cubic_at(picture: Floats, x: Floats, y: Floats) -> Floats:
    """RGB (n, 3) of `picture` (h, w, 3), bicubic with OpenCV's weights, edges repeated."""
    height, width = picture.shape[:2]
    fx, fy = np.floor(x), np.floor(y)
    across, down = cubic_weights(x - fx), cubic_weights(y - fy)
    columns = [np.clip(fx.astype(np.int64) - 1 + i, 0, width - 1) for i in range(4)]
    out = np.zeros((len(x), 3), np.float32)
    for j in range(4):
        row = np.clip(fy.astype(np.int64) - 1 + j, 0, height - 1)
        total = picture[row, columns[0]] * across[0][:, None]
        for i in range(1, 4):
            total += picture[row, columns[i]] * across[i][:, None]
        out += total * down[j][:, None]
    return out


def cubic_weights(p: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Keys' (1981) with a = -.75, of the four pixels around a place `p` behind the second."""
    one = np.float32(1)
    q, r = p + one, one - p
    first = ((np.float32(-0.75) * q + np.float32(3.75)) * q - np.float32(6)) * q + np.float32(3)
    second, third = ((np.float32(1.25) * v - np.float32(2.25)) * v * v + one for v in (p, r))
    return first, second, third, one - first - second - third
