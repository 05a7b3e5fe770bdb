"""Mesh-warp of many faces at once, frames to frames: the order of the kernels and the tables that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from farm.faces import lids, meshwarp
from farm.faces.cuda import blur, dress
from farm.faces.cuda import mesh_device as do
from farm.faces.cuda.backend import Array
from farm.faces.cuda.canvas import Canvases, Ints, cells_across
from farm.faces.cuda.mesh_device import Kernel, MeshDevice
from farm.faces.cuda.mesh_plan import MeshFace
from farm.faces.cuda.skin import FINE_SIGMA
from farm.faces.cuda.surface import Floats, Surface
from farm.faces.mesh import VERTICES, canonical_mesh
from farm.faces.meshwarp import SwapSettings
from farm.faces.texture import SIZE, Mask
from farm.faces.tones import SIDE

ROOM = 1 << 21
"""Pixels of all canvases that are worked on at a time; a larger face is worked on alone."""
_PATCHES = 6


@dataclass(frozen=True, slots=True)
class Laid:
    """usable: whether every value was a number; else the face was left as it is. mask: float32[h, w], where wanted."""

    usable: bool
    changed: bool
    mask: Mask | None


class MeshStep:
    """Paints faces into frames of one surface, in place. Faces of one frame are to come in calls of their own."""

    def __init__(self, device: MeshDevice, surface: Surface, settings: SwapSettings) -> None:
        self._device, self._surface, self._settings = device, surface, settings

    def lay(self, frames: Array, faces: Sequence[MeshFace], *, masks: bool) -> list[Laid]:
        """What became of each; with `masks` each with its mask."""
        made: list[Laid] = []
        for some in groups(faces):
            made += _Group(self._device, self._surface, self._settings, some).lay(frames, masks)
        return made


def groups(faces: Sequence[MeshFace]) -> Iterator[Sequence[MeshFace]]:
    """Runs of faces whose canvases fit into ROOM and whose textures are of one size."""
    start, held = 0, 0
    for place, face in enumerate(faces):
        if place > start and (held + face.pixels > ROOM or face.side != faces[start].side):
            yield faces[start:place]
            start, held = place, 0
        held += face.pixels
    if len(faces) > start:
        yield faces[start:]


class _Group:
    def __init__(self, device: MeshDevice, surface: Surface, settings: SwapSettings, faces: Sequence[MeshFace]) -> None:
        self._device, self._surface, self._settings, self._faces = device, surface, settings, faces
        self._canvases = Canvases.of([face.place for face in faces], [face.box for face in faces])
        self._count, self._pixels, self._most = len(faces), self._canvases.pixels, self._canvases.most
        device.begin()
        frame_of, box, start = device.put(self._canvases.frame_of, self._canvases.box, self._canvases.start)
        self._frame_of, self._table = frame_of, (box, start)

    def lay(self, frames: Array, masks: bool) -> list[Laid]:
        rgb = self._room("rgb", 3)
        where = (self._frame_of, *self._table)
        self._device.run(do.RGB, self._most, self._count, frames, *where, rgb, surface=self._surface)
        spots = self._drawn()
        skin, plate, areas = (
            self._room(name, channels) for name, channels in (("skin", 3), ("plate", 3), ("areas", 4))
        )
        self._run(
            do.SKIN, self._faces[0].side, SIDE, SIZE, rgb, spots, *self._textures(), skin, plate, areas
        )  # fmt: skip
        area_masks = self._masks(areas)
        fines, softer, luma = self._fines(areas, area_masks, plate, rgb, skin)
        numbers, patches, values = self._told(self._sums(areas, area_masks, fines, softer), luma)
        mask, flags = self._room("mask"), self._device.room("flags", (self._count, 2), np.int32, clean=True)
        self._run(do.FINISH, numbers, patches, values, plate, area_masks, fines, skin, mask, flags)
        across, down = cells_across(self._canvases)
        self._device.run(
            do.LAY, across * down, self._count, frames, *where, skin, mask, flags, across, surface=self._surface
        )
        return self._outcomes(flags, mask if masks else None)

    def _run(self, kernel: Kernel, *arguments: object) -> None:
        self._device.run(kernel, self._most, self._count, *self._table, *arguments)

    def _room(self, name: str, channels: int = 1) -> Array:
        return self._device.room(name, (self._pixels, channels) if channels > 1 else (self._pixels,))

    def _drawn(self) -> Array:
        """For each pixel its place in the texture and on the plate, and whether the mesh is there."""
        mesh, drawings = canonical_mesh(), [face.drawing for face in self._faces]
        count, names = len(mesh.triangles), ("fixed", "rank", "order", "points", "source")
        small = Canvases.of([0] * len(drawings), [(0, 0, one.shape[1], one.shape[0]) for one in drawings])
        fixed, rank, order, points, source, box, start, step = self._device.put(
            *(np.stack([getattr(one, name) for one in drawings]) for name in names),
            small.box,
            small.start,
            np.array([one.step for one in drawings], np.int32),
        )
        shown = self._device.room("shown", (small.pixels,), np.int32, clean=True)
        self._device.run(do.DRAW, count, self._count, box, start, count, fixed, rank, shown)
        sparse = self._device.room("sparse", (small.pixels, 5))
        corners, uv = self._device.keep(mesh.triangles), self._device.keep(mesh.uv)
        self._device.run(
            do.MAP, small.most, self._count, box, start, count, VERTICES, shown, order, corners, points, source, uv,
            step, sparse,
        )  # fmt: skip
        spots = self._room("spots", 5)
        self._run(do.SPREAD, box, start, step, sparse, spots)
        return spots

    def _textures(self) -> tuple[Array, Array, Array, Array]:
        """Detail, tones and fields of every face, and the places that are the same for all."""
        side = self._faces[0].side
        textures = self._device.room("textures", (self._count, side * side, 3))
        chosen = [dress.chosen(face.shares) for face in self._faces]
        which, shares, laid = (np.stack([one[k] for one in chosen]) for k in range(3))
        far = np.array([face.far for face in self._faces], np.float32)
        tones, fields = (np.stack([getattr(face, name) for face in self._faces]) for name in ("tones", "fields"))
        *chosen_there, far_there, tones_there, fields_there = self._device.put(which, shares, laid, far, tones, fields)
        for rows in self._alike():
            face = self._faces[int(rows[0])]
            identity, banked = face.identity, face.shares is not None
            detail, bank = self._device.keep(identity.detail), self._device.keep(identity.bank.details)
            over = detail
            if identity.lids is not None:
                over = self._device.keep(identity.lids, partial(lids.fitting, side=side), side)
            [rows_there] = self._device.put(rows)
            self._device.run(
                do.DRESS, side * side, len(rows), rows_there, side * side, int(banked), detail, bank, *chosen_there,
                int(identity.lids is not None), over, far_there, self._device.keep(dress.places(side)), textures,
            )  # fmt: skip
        return textures, tones_there, fields_there, self._device.keep(_places())

    def _alike(self) -> list[Ints]:
        """Faces that show one identity in one way."""
        kinds: dict[tuple[int, bool], list[int]] = {}
        for number, face in enumerate(self._faces):
            kinds.setdefault((id(face.identity), face.shares is None), []).append(number)
        return [np.array(rows, np.int32) for rows in kinds.values()]

    def _masks(self, areas: Array) -> Array:
        """Where skin goes and where anything changes, with soft edges."""
        [kept] = self._device.put(np.concatenate([face.kept.ravel() for face in self._faces]))
        kept = self._blurred(kept, 1, [max(0.5, meshwarp.KEPT_EDGE * face.width) for face in self._faces], "kept")
        soft = self._blurred(areas, 4, [max(0.5, 0.004 * face.width) for face in self._faces], "soft areas")
        masks = self._room("masks", 2)
        self._run(do.SPARE, soft, kept, masks)
        return masks

    def _fines(self, areas: Array, masks: Array, plate: Array, rgb: Array, skin: Array) -> tuple[Array, Array, Array]:
        """Fine detail of skin, plate and the plate where it was; the skin's blurred once more; the plate's luma."""
        luma, lumas, first = self._room("luma"), self._room("lumas", 3), self._room("first")
        self._run(do.LUMA, plate, luma)
        soft = self._blurred(luma, 1, [meshwarp.grain_sigma(face.width, face.identity) for face in self._faces], "soft")
        handed, clear = self._device.put(*self._hands())
        self._run(do.GRAIN, areas, luma, soft, rgb, float(self._settings.grain), handed, clear, masks, skin, lumas)
        self._run(do.FINE, 3, self._blurred(lumas, 3, [FINE_SIGMA] * self._count, "softer"), lumas, first)
        return lumas, self._blurred(first, 1, [FINE_SIGMA] * self._count, "softest"), luma

    def _hands(self) -> tuple[Ints, Floats]:
        handed = np.array([face.clear is not None for face in self._faces], np.int32)
        if not handed.any():
            return handed, np.ones(1, np.float32)
        clear = [np.ones(face.pixels, np.float32) if face.clear is None else face.clear.ravel() for face in self._faces]
        return handed, np.concatenate(clear)

    def _blurred(self, values: Array, channels: int, sigmas: Sequence[float], name: str) -> Array:
        most, radius, weights = blur.weights_of(sigmas)
        radius_there, weights_there = self._device.put(radius, weights)
        across, out = self._room(f"across {channels}", channels), self._room(name, channels)
        for step, given, made in ((blur.ACROSS, values, across), (blur.DOWN, across, out)):
            self._run(do.BLUR, channels, step, most, radius_there, weights_there, given, made)
        return out

    def _sums(self, areas: Array, masks: Array, fines: Array, softer: Array) -> Floats:
        """float32[n, 5]; this waits."""
        across = int(self._canvases.sizes[:, 0].max())
        sums = self._device.room("sums", (self._count, across, 5))
        self._device.run(do.COLUMNS, across, self._count, *self._table, areas, masks, fines, softer, across, sums)
        return np.asarray(self._device.download(sums).sum(axis=1, dtype=np.float64), np.float32)

    def _told(self, sums: Floats, luma: Array) -> list[Array]:
        """Numbers, patches and the patches' values for the last step."""
        numbers = np.zeros((self._count, 8), np.float32)
        patches, values, held = np.zeros((self._count, _PATCHES, 5), np.int32), [np.zeros(1, np.float32)], 1
        for row, face in enumerate(self._faces):
            count, *parts = (float(value) for value in sums[row])
            more = meshwarp.sharpening(*(part / count for part in parts)) if count else 0.0
            numbers[row] = (self._settings.sharpness * more, face.strength, *face.eyes.iris, *face.eyes.whites)
            small = [*((0, p, self._factor(row, p, luma)) for p in face.lashes)]
            small += [(2, p, p[2]) for p in face.eyes.irises]
            small += [(4, p, p[2]) for p in face.eyes.white_places]
            taken = dict.fromkeys((0, 2, 4), 0)
            for first, (rows, columns, _), picture in small:
                slot = first + taken[first]
                taken[first] += 1
                patches[row, slot] = (columns.start, rows.start, columns.stop, rows.stop, held)
                values.append(np.asarray(picture, np.float32).ravel())
                held += picture.size
        return self._device.put(numbers, patches, np.concatenate(values))

    def _factor(self, row: int, patch: tuple[slice, slice, Mask], luma: Array) -> Floats:
        """By what the skin is multiplied for lashes: how dark the plate is there is asked of the device."""
        rows, columns, mask = patch
        face, start = self._faces[row], int(self._canvases.start[row])
        width = face.box[2] - face.box[0]
        band = self._device.download(luma[start + rows.start * width : start + rows.stop * width]).reshape(-1, width)
        dark = lids.darker(np.ascontiguousarray(band[:, columns]), face.width)
        return np.asarray(1 + (dark - 1) * mask, np.float32)

    def _outcomes(self, flags: Array, mask: Array | None) -> list[Laid]:
        told = self._device.download(flags)
        whole = self._device.download(mask) if mask is not None else None
        made = []
        for face, start, (broken, changed) in zip(self._faces, self._canvases.start, told, strict=True):
            own = None if whole is None else whole[start : start + face.pixels].reshape(face.kept.shape)
            made.append(Laid(not broken, bool(changed), own))
        return made


@cache
def _places() -> Floats:
    return np.dstack([meshwarp.plain_skin(), meshwarp.inner_face()]).astype(np.float32)
