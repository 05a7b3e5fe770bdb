"""Upscalers on pictures of any size: overlapping tiles, woven together with soft edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.neural_safety import Outputs, checked, full_precision
from farm.faces.neural_source import Loads
from farm.faces.neural_tensors import Picture, to_pictures, to_tensor

_LEAST = 1e-4
"""Weight of a tile's outermost pixels; at the picture's own edge no other tile has them."""


class Upscaler:
    """A catalogue upscaler; tile and overlap are pixels of the given picture.

    Every tile of a picture has the same size, at most `tile` and no larger than the picture needs; the rest is mirrored
    outwards. So a film runs at one shape.
    """

    def __init__(
        self,
        models: Loads,
        name: str,
        *,
        precision: str | None = None,
        tile: int | None = None,
        overlap: int | None = None,
        batch: int = 1,
    ) -> None:
        self._models, self._name = models, name
        self._model = models.load(name, precision)
        spec = self._model.spec
        self._full = full_precision(spec, precision)
        self.scale = int(spec.settings["scale"])
        self.tile = int(spec.settings["tile"]) if tile is None else tile
        self.overlap = int(spec.settings["overlap"]) if overlap is None else overlap
        self._batch = batch
        if self.overlap < 0 or self.tile <= 2 * self.overlap:
            raise RecipeError(
                f"Tiles of {self.tile} px cannot overlap by {self.overlap} px on each side.",
                where=f"model {name}",
                do="Use a tile of more than twice the overlap.",
            )

    def upscale(self, picture: Picture) -> Picture:
        """`picture` RGB 0..1 (h, w, 3) at `scale` times its size.

        Raises RecipeError where the network gives no usable picture, in full precision either.
        """
        large = self.upscale_or_none(picture)
        if large is None:
            raise RecipeError(
                "The network gave no usable picture (not a number, or flat).",
                where=f"model {self._name}",
                do="Use the fp32 file, or another model.",
            )
        return large

    def upscale_or_none(self, picture: Picture) -> Picture | None:
        """Like `upscale`, but None where the network gives no usable picture."""
        tall, wide = (_side(length, self.tile, self.overlap) for length in picture.shape[:2])
        tops = _starts(picture.shape[0], tall, self.overlap)
        lefts = _starts(picture.shape[1], wide, self.overlap)
        padded = _mirrored(picture, tops[-1] + tall, lefts[-1] + wide)
        height, width = padded.shape[:2]
        s = self.scale
        total = np.zeros((height * s, width * s, 3), np.float32)
        weight = np.zeros((height * s, width * s, 1), np.float32)
        window = _window(tall * s, wide * s, self.overlap * s)
        places = [(top, left) for top in tops for left in lefts]
        for first in range(0, len(places), self._batch):
            some = places[first : first + self._batch]
            tiles = np.stack([padded[top : top + tall, left : left + wide] for top, left in some])
            enlarged = self._run(tiles)
            if enlarged is None:
                return None
            for (top, left), made in zip(some, enlarged, strict=True):
                region = np.s_[top * s : (top + tall) * s, left * s : (left + wide) * s]
                total[region] += made * window
                weight[region] += window
        whole = total / weight
        return np.ascontiguousarray(whole[: picture.shape[0] * s, : picture.shape[1] * s])

    def _run(self, tiles: Picture) -> Picture | None:
        given, made = self._model.spec.inputs[0], self._model.spec.outputs[0]

        def again(wrong: NDArray[np.float32]) -> Outputs:
            return self._models.load(self._name, self._full).run_batch(**{given.name: wrong})

        result = checked(
            lambda batch: self._model.run_batch(**{given.name: batch}),
            again if self._full is not None else None,
            to_tensor(tiles, given),
            made.name,
        )
        return to_pictures(result.outputs[made.name], made) if result.ok.all() else None


_STEP = 16
"""Sides of tiles are multiples of this: networks that halve their picture or look at windows of it need that."""


def _side(length: int, tile: int, overlap: int) -> int:
    """The least side with which as few tiles as of side `tile` reach over `length`."""
    inner = max(1, length - 2 * overlap)
    count = -(-inner // (tile - 2 * overlap))
    return min(tile, -(-(-(-inner // count) + 2 * overlap) // _STEP) * _STEP)


def _starts(length: int, tile: int, overlap: int) -> list[int]:
    """Where tiles begin so that neighbours share 2·overlap pixels and the last one reaches the end."""
    step = tile - 2 * overlap
    count = max(1, -(-(length - 2 * overlap) // step))
    return [index * step for index in range(count)]


def _mirrored(picture: Picture, height: int, width: int) -> Picture:
    """The picture grown to at least (height, width) by mirroring at its lower and right edges, again and again."""
    below, right = max(height - picture.shape[0], 0), max(width - picture.shape[1], 0)
    return np.pad(picture, ((0, below), (0, right), (0, 0)), mode="symmetric")


def _window(tall: int, wide: int, overlap: int) -> NDArray[np.float32]:
    """Weights (tall, wide, 1) of a tile: (almost) nothing for half an overlap from each edge, where the network saw too
    little, then rising over one overlap so that two neighbours sum to the same (even overlaps).
    """
    return (_ramp(tall, overlap)[:, None] * _ramp(wide, overlap)[None, :]).astype(np.float32)[..., None]


def _ramp(side: int, overlap: int) -> NDArray[np.float64]:
    rise = (np.arange(overlap) + 0.5) / max(overlap, 1)
    line = np.ones(side, np.float64)
    edge = overlap - overlap // 2
    line[:edge] = line[side - edge :] = 0
    line[edge : edge + overlap] = rise
    line[side - edge - overlap : side - edge] = rise[::-1]
    # Along each axis for itself, or a seam would show at the picture's edge.
    return np.asarray(np.maximum(line, _LEAST), np.float64)
