"""Frame views of batches that lie on a card: seen in batches there, second looks by the CPU path's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.backend import Array, Later
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.cuda.look import Looker
from farm.faces.cuda.networks import CardNetworks, Eye, Opened
from farm.faces.cuda.places import similarities
from farm.faces.cuda.seen import five_of
from farm.faces.cuda.skins import SkinReader
from farm.faces.cuda.surface import Surface
from farm.faces.detect import Detection
from farm.faces.embed import unit
from farm.faces.geometry import ARCFACE_112, Affine, invert
from farm.faces.hands import HAND_CROP, Hand, hand_crops, hand_seen, palm_crop, unlike
from farm.faces.landmarks import Landmarks
from farm.faces.network import Networks
from farm.faces.sharpness import sharpness
from farm.faces.spans import CADENCE
from farm.faces.track import embeds, shows_hands
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

_PLAIN = Packing(np.array([1, 1, 1, 0, 0, 0], np.float32), np.array([1, 1, 1, 0, 0, 0], np.float32), False, True)
"""RGB of 0..1, pixel by pixel."""
_NO_TEXTURE = np.zeros((0, 0, 3), np.float32)
_NO_SKIN = np.zeros((0, 0), np.float32)


@dataclass(slots=True, eq=False)
class CardBatch:
    """Frames in a row of one plate, in device memory.

    Attributes
    ----------
    array: (batch + 1, rows, width). heads: the frames without their samples. peek: whether the plate's next frame lies
    behind them in `array`. ready: a mark (see `Kernels`) after which the samples are there.
    """

    array: Array
    heads: list[Frame]
    peek: bool = False
    ready: Any = None

    def __len__(self) -> int:
        return len(self.heads)


@dataclass(slots=True, eq=False)
class CardView(FrameView):
    """A frame of a plate that is shown as it is coded; no other fits on the card. It lies at `place` of `batch`."""

    place: int = 0
    batch: CardBatch | None = None

    def shown(self, point: NDArray[np.float64], facts: PlateFacts) -> tuple[float, float]:
        return float(point[0]), float(point[1])


class CardAnalyst(CloseUp):
    """Makes the views of batches. What it says of a frame is a pure function of that frame and of those between the
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
        skin: bool = False,
        expressions: bool = False,
        cadence: int = CADENCE,
    ) -> None:
        super().__init__(models, facts, hands=hands, skin=skin, expressions=expressions)
        self._skins = SkinReader(surface, self._expressions) if skin else None
        self._surface = surface
        self._aside, self._alone = networks.aside.kernels, Lock()
        self._square = self._aside.empty((1, HAND_CROP, HAND_CROP, 3), np.float32)
        self._lookers = [
            (
                eye,
                Looker(
                    eye.kernels,
                    surface,
                    (eye.detector.buckets, eye.detector.spec),
                    (eye.landmarker.buckets, eye.landmarker.spec),
                    rough=eye.rough.buckets,
                    wide=eye.wide.buckets,
                    cadence=cadence,
                ),
            )
            for eye in networks.eyes
        ]

    def look(self, batch: CardBatch, turn: int = 0) -> list[FrameView]:
        """One view a frame, in order; they show the samples until the batch is painted. In the home of eye `turn`."""
        eye, looker = self._lookers[turn]
        eye.kernels.after(batch.ready)
        found = looker.look(batch.array, len(batch), first=batch.heads[0].index, peek=batch.peek)
        views: list[FrameView] = [
            CardView(head, found.small[place], [], partial(self._shown, batch, place), place=place, batch=batch)
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
        embedded = self._ask_embeddings(eye, batch, views)
        if self._skins is not None:
            seen = [(place, face) for place, view in enumerate(views) for face in view.faces]
            self._skins.read(eye.mesh, batch.array, [place for place, _ in seen], [face for _, face in seen])
        if self._hands is not None:
            self._find_all_hands(eye, batch, views)
        for tell in embedded:
            tell()
        return views

    def fetched(self, batch: CardBatch, place: int) -> Frame:
        """A frame with its samples, as they are now; for any thread."""
        with self._alone:
            picture = self._aside.download(batch.array[place])
        return self._surface.unpack(picture, batch.heads[place])

    def _shown(self, batch: CardBatch, place: int) -> Shown:
        preview, affine = upright_preview(self.fetched(batch, place), self._facts, PREVIEW)
        return preview, np.asarray(affine, np.float64)

    def _face(self, view: FrameView, marks: Landmarks, found: Detection | None) -> FaceView:
        if self._skins is not None and isinstance(view, CardView) and view.batch is not None:
            return super()._face(replace(view, frame=self.fetched(view.batch, view.place)), marks, found)
        points = marks.moved(view.to_frame).points
        score = found.score if found else 0.0
        return FaceView(extent(points), points, score, marks.presence, _NO_TEXTURE, _NO_SKIN, None)

    def _ask_embeddings(self, eye: Eye, batch: CardBatch, views: list[FrameView]) -> list[Callable[[], None]]:
        """Embed every few frames' faces, and those in crowds; what is given back writes it down when it is there."""
        network = eye.embedder
        wanted = [
            (place, face)
            for place, view in enumerate(views)
            for face in view.faces
            if embeds(view.index) or face.crowded
        ]
        asked: list[Callable[[], None]] = []
        for some in _parts(wanted, network.buckets.capacity):
            five = five_of(np.stack([face.points for _, face in some]))
            self._cut(eye, batch, [place for place, _ in some], similarities(ARCFACE_112, five), network)
            crops = eye.kernels.later(network.buckets.arrays[network.spec.inputs[0].in_graph][: len(some)])
            network.buckets.run(len(some))
            vectors = eye.kernels.later(network.buckets.arrays[network.spec.outputs[0].in_graph][: len(some)])
            asked.append(partial(_embedded, [face for _, face in some], crops, vectors))
        return asked

    def follow_hand(self, view: FrameView, hand: Hand) -> Hand | None:
        """As on the processor, but that only the hand's square is fetched; for any thread."""
        if self._hands is None or not isinstance(view, CardView) or view.batch is None:
            return super().follow_hand(view, hand)
        plan = crop_plan(np.array([view.place]), invert(hand.crop)[None])
        with self._alone:
            self._aside.crop(view.batch.array, self._surface, plan, _PLAIN, self._square, side=HAND_CROP)
            square = self._aside.download(self._square)
        return self._hands.within(square, hand.crop)

    def _find_all_hands(self, eye: Eye, batch: CardBatch, views: list[FrameView]) -> None:
        """Hands near the faces of every few frames: palms first, then, where there may be one, the hand itself."""
        wanted = [(place, face) for place, view in enumerate(views) for face in view.faces if shows_hands(view.index)]
        crops = [palm_crop(face.points) for _, face in wanted]
        answers = self._answers(eye, batch, [place for place, _ in wanted], crops, eye.palms)
        near = [
            (place, face, square)
            for (place, face), crop, (rows, logits) in zip(wanted, crops, answers, strict=True)
            for square in hand_crops(logits, rows, crop)
        ]
        squares = [square for _, _, square in near]
        answers = self._answers(eye, batch, [place for place, _, _ in near], squares, eye.hands)
        for (_, face, square), (points, score) in zip(near, answers, strict=True):
            hand = hand_seen(score, points, square)
            face.hands = unlike([*face.hands, *([hand] if hand is not None else [])])

    def _answers(
        self, eye: Eye, batch: CardBatch, places: list[int], crops: list[Affine], network: Opened
    ) -> list[tuple[NDArray[Any], ...]]:
        """The network's first two outputs for each of the crops (maps from frame to crop)."""
        arrays, room = network.buckets.arrays, network.buckets.capacity
        asked = []
        for start in range(0, len(crops), room):
            some = np.s_[start : start + room]
            maps = np.stack([invert(crop) for crop in crops[some]])
            self._cut(eye, batch, places[some], maps, network)
            network.buckets.run(len(maps))
            asked.append([eye.kernels.later(arrays[port.in_graph][: len(maps)]) for port in network.spec.outputs[:2]])
        return [row for told in asked for row in zip(*(output() for output in told), strict=True)]

    def _cut(
        self,
        eye: Eye,
        batch: CardBatch,
        places: list[int],
        to_frame: NDArray[np.float64],
        network: Opened,
    ) -> None:
        tensor = network.spec.inputs[0]
        target, packing = network.buckets.arrays[tensor.in_graph], Packing.of(tensor)
        side = int(target.shape[1] if packing.interleaved else target.shape[2])
        plan = crop_plan(np.array(places), to_frame)
        eye.kernels.crop(batch.array, self._surface, plan, packing, target, side=side)


def _embedded(faces: list[FaceView], crops: Later, vectors: Later) -> None:
    for face, vector, crop in zip(faces, vectors(), crops(), strict=True):
        face.embedding = unit(vector.reshape(-1))
        grey = cv2.cvtColor(np.ascontiguousarray(crop.transpose(1, 2, 0), np.float32), cv2.COLOR_RGB2GRAY)
        face.sharpness = sharpness(np.asarray(grey, np.float32), face.size)


def head_of(frame: Frame) -> Frame:
    """The frame without its samples."""
    return Frame((), frame.format, frame.colour, frame.pts, frame.index, frame.concealed, frame.side_data)


def _parts(items: list[tuple[int, FaceView]], size: int) -> Iterator[list[tuple[int, FaceView]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
