"""Frame views of batches that lie on a card: seen in batches there, second looks by the CPU path's own code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.backend import Array
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.cuda.look import CADENCE, Looker
from farm.faces.cuda.networks import CardNetworks, Opened
from farm.faces.cuda.places import similarities
from farm.faces.cuda.seen import five_of
from farm.faces.cuda.surface import Surface
from farm.faces.detect import Detection
from farm.faces.embed import unit
from farm.faces.geometry import ARCFACE_112, invert
from farm.faces.hands import PALM_LOGIT, palm_crop
from farm.faces.landmarks import Landmarks
from farm.faces.network import Networks
from farm.faces.sharpness import sharpness
from farm.faces.track import EMBED_EVERY, HANDS_EVERY
from farm.faces.views import (
    MIN_PRESENCE,
    PREVIEW,
    SMALLEST,
    CloseUp,
    FaceView,
    FrameView,
    Shown,
    extent,
    settle,
)  # fmt: skip
from farm.media.colour import upright_preview
from farm.media.facts import PlateFacts
from farm.media.frame import Frame

_NO_TEXTURE = np.zeros((0, 0, 3), np.float32)
_NO_SKIN = np.zeros((0, 0), np.float32)


@dataclass(slots=True, eq=False)
class CardBatch:
    """Frames in a row of one plate, in device memory.

    Attributes
    ----------
    array: (batch + 1, rows, width). heads: the frames without their samples. peek: whether the plate's next frame lies
    behind them in `array`.
    """

    array: Array
    heads: list[Frame]
    peek: bool = False

    def __len__(self) -> int:
        return len(self.heads)


@dataclass(slots=True, eq=False)
class CardView(FrameView):
    """A frame of a plate that is shown as it is coded; no other fits on the card."""

    def shown(self, point: NDArray[np.float64], facts: PlateFacts) -> tuple[float, float]:
        return float(point[0]), float(point[1])


class CardAnalyst(CloseUp):
    """Makes the views of a batch. What it says of a frame is a pure function of that frame and of those between the
    multiples of CADENCE on its two sides.
    """

    def __init__(
        self,
        networks: CardNetworks,
        surface: Surface,
        models: Networks,
        facts: PlateFacts,
        *,
        hands: bool,
        cadence: int = CADENCE,
    ) -> None:
        super().__init__(models, facts, hands=hands)
        self._networks, self._kernels, self._surface = networks, networks.kernels, surface
        self._wants_hands = hands
        level, rough, eye = networks.landmarker, networks.rough, networks.detector
        self._looker = Looker(
            self._kernels,
            surface,
            (eye.buckets, eye.spec),
            (level.buckets, level.spec),
            rough=rough.buckets,
            cadence=cadence,
        )

    def look(self, batch: CardBatch) -> list[FrameView]:
        """One view a frame, in order; they show the samples until the batch is painted."""
        found = self._looker.look(batch.array, len(batch), first=batch.heads[0].index, peek=batch.peek)
        views: list[FrameView] = [
            CardView(head, found.small[place], [], partial(self._shown, batch, place))
            for place, head in enumerate(batch.heads)
        ]
        sizes = (found.box[:, 2:] - found.box[:, :2]).max(axis=1, initial=0.0)
        for row in np.flatnonzero((sizes >= SMALLEST) & (found.presence >= MIN_PRESENCE)):
            points = found.points[row]
            face = FaceView(
                extent(points), points, float(found.score[row]), float(found.presence[row]), _NO_TEXTURE, _NO_SKIN, None
            )
            views[int(found.frame_of[row])].faces.append(face)
        for view in views:
            settle(view.faces)
        self._embed_all(batch, views)
        if self._wants_hands:
            self._find_all_hands(batch, views)
        return views

    def fetched(self, batch: CardBatch, place: int) -> Frame:
        """A frame with its samples, as they are now."""
        return self._surface.unpack(self._kernels.download(batch.array[place]), batch.heads[place])

    def _shown(self, batch: CardBatch, place: int) -> Shown:
        preview, affine = upright_preview(self.fetched(batch, place), self._facts, PREVIEW)
        return preview, np.asarray(affine, np.float64)

    def _face(self, view: FrameView, marks: Landmarks, found: Detection | None) -> FaceView:
        points = marks.moved(view.to_frame).points
        score = found.score if found else 0.0
        return FaceView(extent(points), points, score, marks.presence, _NO_TEXTURE, _NO_SKIN, None)

    def _embed_all(self, batch: CardBatch, views: list[FrameView]) -> None:
        network = self._networks.embedder
        wanted = [
            (place, face)
            for place, view in enumerate(views)
            for face in view.faces
            if view.index % EMBED_EVERY == 0 or face.crowded
        ]
        for some in _parts(wanted, network.buckets.capacity):
            five = five_of(np.stack([face.points for _, face in some]))
            self._cut(batch, some, similarities(ARCFACE_112, five), network)
            crops = self._kernels.download(network.buckets.arrays[network.spec.inputs[0].in_graph][: len(some)])
            network.buckets.run(len(some))
            vectors = self._kernels.download(network.buckets.arrays[network.spec.outputs[0].in_graph][: len(some)])
            for (_, face), vector, crop in zip(some, vectors, crops, strict=True):
                face.embedding = unit(vector.reshape(-1))
                grey = cv2.cvtColor(np.ascontiguousarray(crop.transpose(1, 2, 0), np.float32), cv2.COLOR_RGB2GRAY)
                face.sharpness = sharpness(np.asarray(grey, np.float32), face.size)

    def _find_all_hands(self, batch: CardBatch, views: list[FrameView]) -> None:
        """Ask for palms on the card; only where there may be one is the frame looked at closely."""
        network = self._networks.palms
        wanted = [
            (place, face) for place, view in enumerate(views) for face in view.faces if view.index % HANDS_EVERY == 0
        ]
        for some in _parts(wanted, network.buckets.capacity):
            maps = np.stack([invert(palm_crop(face.points)) for _, face in some])
            self._cut(batch, some, maps, network)
            network.buckets.run(len(some))
            logits = self._kernels.download(network.buckets.arrays[network.spec.outputs[1].in_graph][: len(some)])
            for (place, face), logit in zip(some, logits, strict=True):
                if logit.max() >= PALM_LOGIT:
                    self.find_hands(views[place], face)

    def _cut(
        self, batch: CardBatch, faces: list[tuple[int, FaceView]], to_frame: NDArray[np.float64], network: Opened
    ) -> None:
        tensor = network.spec.inputs[0]
        target, packing = network.buckets.arrays[tensor.in_graph], Packing.of(tensor)
        side = int(target.shape[1] if packing.interleaved else target.shape[2])
        plan = crop_plan(np.array([place for place, _ in faces]), to_frame)
        self._kernels.crop(batch.array, self._surface, plan, packing, target, side=side)


def head_of(frame: Frame) -> Frame:
    """The frame without its samples."""
    return Frame((), frame.format, frame.colour, frame.pts, frame.index, frame.concealed, frame.side_data)


def _parts(items: list[tuple[int, FaceView]], size: int) -> Iterator[list[tuple[int, FaceView]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
