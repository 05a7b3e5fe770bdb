"""What mesh-warp must see of every face of a batch: its skin unrolled, its irises' colour, what it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda import mesh_device as do
from farm.faces.cuda.backend import Array
from farm.faces.cuda.canvas import Canvases, plan_of_unrolling
from farm.faces.cuda.mesh_device import MeshDevice
from farm.faces.cuda.surface import Surface
from farm.faces.expression import Expressions
from farm.faces.eyes import iris_colour
from farm.faces.mesh import VERTICES
from farm.faces.texture import SIZE, Texture, skin
from farm.faces.views import Box, FaceView, clipped

_IRISES = slice(468, 478)
_AROUND = 4.0


class SkinReader:
    """Reads the faces of frames that lie on the device; the numbers are those of `views.CloseUp`."""

    def __init__(self, surface: Surface, expressions: Expressions | None) -> None:
        self._surface, self._expressions = surface, expressions

    def read(self, device: MeshDevice, frames: Array, places: Sequence[int], faces: Sequence[FaceView]) -> None:
        """Complete `faces`, each of the frame at its place, in place."""
        if not faces:
            return
        device.begin()
        unrolled, eyes = self._unrolled(device, frames, places, faces), self._eyes(device, frames, places, faces)
        # In one thread: these are many small steps, for which several would wait for the interpreter's lock.
        for face, texture, seen in zip(faces, unrolled, eyes, strict=True):
            self._told(face, texture, seen)

    def _told(self, face: FaceView, texture: Texture, eyes: tuple[Box, Texture]) -> None:
        box, rgb = eyes
        face.texture, face.skin = texture, skin(texture)
        face.iris = iris_colour(rgb, face.points[:, :2] - np.array(box[:2], np.float64))
        if self._expressions is not None:
            face.traits = self._expressions(face.points)

    def _unrolled(
        self, device: MeshDevice, frames: Array, places: Sequence[int], faces: Sequence[FaceView]
    ) -> NDArray[np.float32]:
        corners, weights = (device.keep(table) for table in plan_of_unrolling())
        points = np.stack([face.points[:VERTICES, :2] for face in faces]).astype(np.float32)
        frame_of, there = device.put(np.array(places, np.int32), points)
        out = device.room("unrolled", (len(faces), SIZE * SIZE, 3))
        device.run(
            do.UNROLL, SIZE * SIZE, len(faces), frames, frame_of, there, VERTICES, corners, weights, SIZE * SIZE, out,
            surface=self._surface,
        )  # fmt: skip
        return np.asarray(device.download(out).reshape(-1, SIZE, SIZE, 3), np.float32)

    def _eyes(
        self, device: MeshDevice, frames: Array, places: Sequence[int], faces: Sequence[FaceView]
    ) -> list[tuple[Box, Texture]]:
        """The part of each frame that holds both irises, R'G'B'."""
        boxes = [self._box(face.points[_IRISES, :2]) for face in faces]
        canvases = Canvases.of(places, boxes)
        rgb = device.room("eyes", (canvases.pixels, 3))
        where = device.put(canvases.frame_of, canvases.box, canvases.start)
        device.run(do.RGB, canvases.most, len(faces), frames, *where, rgb, surface=self._surface)
        whole = device.download(rgb)
        sizes, starts = canvases.sizes, canvases.start
        return [
            (box, whole[start : start + width * height].reshape(height, width, 3))
            for box, start, (width, height) in zip(boxes, starts, sizes, strict=True)
        ]

    def _box(self, irises: NDArray[np.float64]) -> Box:
        return clipped(self._surface.planar, np.concatenate([irises.min(axis=0), irises.max(axis=0)]), margin=_AROUND)
