"""What is seen in one frame, found from that frame alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.detect import Detection, overlap
from farm.faces.embed import Embedder, Embedding
from farm.faces.expression import Expressions, Traits
from farm.faces.eyes import iris_colour
from farm.faces.finder import open_finder
from farm.faces.geometry import Affine, apply, five_points, invert, scale_of
from farm.faces.hands import Hand, HandFinder
from farm.faces.landmarks import Landmarker, Landmarks
from farm.faces.mesh import VERTICES
from farm.faces.mirror import flipped, is_mirrored, straight_facts
from farm.faces.network import EMBEDDER, HANDS, LANDMARKER, PALMS, Networks
from farm.faces.sharpness import sharpness
from farm.faces.texture import Mask, Texture, skin, unwrap
from farm.media.colour import region_to_rgb, upright_preview
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.preview import shown_size
from farm.media.tonemap import tone_map_of
from farm.recipe import DetectorSpec

PREVIEW = 1280
"""Longest side of the picture in which faces are looked for; the detector sees half of it."""

Box = tuple[int, int, int, int]
"""x0, y0, x1, y1 in the frame's coded pixels, half open."""

MIN_PRESENCE = 0.5
SMALL = (64, 36)
"""Columns and rows of the grey copy."""
SMALLEST = 16.0
"""Pixels of the plate as it is shown under which a detection is no face."""


@dataclass(slots=True, eq=False)
class FaceView:
    """One face in one frame.

    Attributes
    ----------
    box: float64[4]; points: float64[478, 3]: coded pixels of the frame (z in the same scale, smaller is nearer).
    score, presence: what the detector and the landmarker say, 0..1.
    texture, skin: the unrolled face in display-referred RGB (BT.709 where the plate is HDR or wide), and where it is
        bare skin; without elements where no processor of the recipe asks for them. iris: float32[3] RGB of the irises,
        None where the eyes do not show it.
    hands: hands seen near this face. embedding: where one was made; sharpness: measured with it.
    crowded: another face is so near that the two may be mistaken for one another.
    starts: the embedding was made because no face of the frame before continues here.
    filled: the detector missed it; it was found between its neighbours in time.
    traits: what the face does, where the analyst was asked for it.
    worth, middle: how much its embedding tells, and `centre`, kept once they were asked for.
    """

    box: NDArray[np.float64]
    points: NDArray[np.float64]
    score: float
    presence: float
    texture: Texture
    skin: Mask
    iris: NDArray[np.float32] | None
    hands: list[Hand] = field(default_factory=list)
    embedding: Embedding | None = None
    sharpness: float | None = None
    crowded: bool = False
    starts: bool = False
    filled: bool = False
    traits: Traits | None = None
    worth: float | None = None
    middle: NDArray[np.float64] | None = None

    @property
    def size(self) -> float:
        return float(max(self.box[2] - self.box[0], self.box[3] - self.box[1]))

    @property
    def centre(self) -> NDArray[np.float64]:
        if self.middle is None:
            self.middle = np.asarray(self.points[:VERTICES, :2].mean(axis=0))
        return self.middle


@dataclass(frozen=True, slots=True)
class Foretold:
    """Where a face should lie: landmarks float64[478, 3] in coded pixels of the frame, and the detector's score."""

    points: NDArray[np.float64]
    score: float


Shown = tuple[NDArray[np.uint8], Affine]
"""An upright BGR preview (h, w, 3), no side over PREVIEW, and the map from its pixels to the frame's."""


@dataclass(slots=True, eq=False)
class FrameView:
    """One frame: a tiny grey copy for cuts, its faces, and its preview, made when somebody looks at it.

    `frame` may be without samples where these lie on a card. `unsure`: something that the detector took for a face did
    not look like one closely.
    """

    frame: Frame
    small: NDArray[np.float32]
    faces: list[FaceView]
    show: Callable[[], Shown]
    unsure: bool = False
    _shown: Shown | None = None

    @property
    def index(self) -> int:
        return self.frame.index

    def shown(self, point: NDArray[np.float64], facts: PlateFacts) -> tuple[float, float]:
        """A point (2,) of the frame's coded pixels in pixels of the plate as it is shown, at its full size."""
        x, y = apply(invert(self.to_frame), point[None])[0, :2] + 0.5
        width, height = shown_size(self.frame, facts)
        return float(x * width / self.preview.shape[1] - 0.5), float(y * height / self.preview.shape[0] - 0.5)

    @property
    def preview(self) -> NDArray[np.uint8]:
        return self._looked()[0]

    @property
    def to_frame(self) -> Affine:
        return self._looked()[1]

    def _looked(self) -> Shown:
        if self._shown is None:
            self._shown = self.show()
        return self._shown


Foresight = Callable[[FrameView], list[Foretold] | None]
"""Where the faces of a frame should lie, by its view without faces; None where it must be looked at itself."""

_NO_TEXTURE, _NO_SKIN = np.zeros((0, 0, 3), np.float32), np.zeros((0, 0), np.float32)


class CloseUp:
    """A second look at a face or a hand whose place is about known. Pure functions of the frame given.

    hands, skin, expressions: hands near faces, textures with irises, and expressions are looked at.
    """

    def __init__(
        self,
        networks: Networks,
        facts: PlateFacts,
        *,
        hands: bool = True,
        skin: bool = True,
        expressions: bool = False,
    ) -> None:
        self._facts = facts
        self._skin = skin
        self._landmarker = Landmarker(networks.load(LANDMARKER))
        self._embedder = Embedder(networks.load(EMBEDDER))
        self._hands = HandFinder(networks.load(PALMS), networks.load(HANDS)) if hands else None
        self._expressions = Expressions(networks) if expressions else None

    def embed(self, view: FrameView, face: FaceView) -> None:
        """Say who it is and how sharp, from one aligned crop."""
        if face.embedding is None:
            points = apply(invert(view.to_frame), face.points)
            crop = self._embedder.crop(view.preview, five_points(points))
            face.embedding = self._embedder.of(crop)
            grey = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY).astype(np.float32)
            face.sharpness = sharpness(grey, face.size / scale_of(view.to_frame))

    def refind(self, view: FrameView, points: NDArray[np.float64]) -> FaceView | None:
        """The face that should lie at `points` (478, 3; frame) although the detector missed it."""
        marks = self._landmarker.refine(view.preview, apply(invert(view.to_frame), points))
        if marks.presence < MIN_PRESENCE:
            return None
        face = self._face(view, marks, None)
        face.filled = True
        return face

    def follow_hand(self, view: FrameView, hand: Hand) -> Hand | None:
        """Where a hand of a neighbouring frame is in this one."""
        if self._hands is None:
            return None
        found = self._hands.follow(view.preview, hand.moved(invert(view.to_frame)))
        return found.moved(view.to_frame) if found else None

    def find_hands(self, view: FrameView, face: FaceView) -> None:
        if self._hands is not None:
            points = apply(invert(view.to_frame), face.points)
            face.hands = [hand.moved(view.to_frame) for hand in self._hands(view.preview, points)]

    def _face(self, view: FrameView, marks: Landmarks, found: Detection | None) -> FaceView:
        placed = marks.moved(view.to_frame)
        box = extent(placed.points)
        score = found.score if found else 0.0
        if not self._skin:
            return FaceView(box, placed.points, score, marks.presence, _NO_TEXTURE, _NO_SKIN, None)
        rgb, origin = _region(view.frame, box)
        local = placed.points[:, :2] - origin
        texture = unwrap(rgb, local)
        iris = iris_colour(rgb, local)
        return FaceView(
            box=box,
            points=placed.points,
            score=score,
            presence=marks.presence,
            texture=texture,
            skin=skin(texture),
            iris=iris,
            traits=self._expressions(placed.points) if self._expressions is not None else None,
        )


class Analyst(CloseUp):
    """Makes frame views. Every method is a pure function of the frame given, so frames may be seen in any order.

    fine: landmarks by two looks at each face, to fractions of a pixel; else a second one only where the first was off.
    """

    def __init__(
        self,
        networks: Networks,
        facts: PlateFacts,
        *,
        detector: DetectorSpec | None = None,
        hands: bool = True,
        skin: bool = True,
        expressions: bool = False,
        fine: bool = True,
    ) -> None:
        super().__init__(networks, facts, hands=hands, skin=skin, expressions=expressions)
        self._fine = fine
        self._mirrored = is_mirrored(facts)
        self._facts = straight_facts(facts)
        self._find = open_finder(detector or DetectorSpec(), networks)
        self._side = self._find.preview_side(PREVIEW)

    def upright(self, frame: Frame) -> Frame:
        """The frame as `look` wants it: flipped where the plate is shown mirrored."""
        return flipped(frame, self._facts) if self._mirrored else frame

    def look(self, frame: Frame, *, embed: bool = False, hands: bool = False) -> FrameView:
        """All faces of a frame; with `embed` and `hands` each with its embedding and the hands near it."""
        view = self._empty(frame)
        self._find_faces(view)
        self._complete(view, embed=embed, hands=hands)
        return view

    def look_between(self, frame: Frame, foretold: Foresight, *, embed: bool = False, hands: bool = False) -> FrameView:
        """Like `look`, without the detector where `foretold` says of the frame's view so far where its faces lie.

        Where it does not, or the landmarker doubts one of them, the frame is looked at in full.
        """
        view = self._empty(frame)
        faces = self._followed(view, foretold(view))
        if faces is None:
            self._find_faces(view)
        else:
            view.faces.extend(faces)
        self._complete(view, embed=embed, hands=hands)
        return view

    def glance(self, frame: Frame, known: Sequence[FaceView], *, hands: bool = False) -> FrameView:
        """The faces of a frame that are those of the one before, moved on a little: no detector is run."""
        view = self._empty(frame)
        view.faces.extend(face for face in (self.refind(view, old.points) for old in known) if face is not None)
        self._complete(view, embed=False, hands=hands)
        return view

    def _find_faces(self, view: FrameView) -> None:
        preview = view.preview
        shrunk = max(shown_size(view.frame, self._facts)) / max(preview.shape[:2])
        for found in self._find(preview, shrunk):
            marks = self._landmarker(preview, found, fine=self._fine)
            if marks.presence < MIN_PRESENCE:
                view.unsure = True
            elif found.size * shrunk >= SMALLEST:
                view.faces.append(self._face(view, marks, found))

    def _followed(self, view: FrameView, foretold: list[Foretold] | None) -> list[FaceView] | None:
        faces: list[FaceView] = []
        for face in foretold or ():
            marks = self._landmarker.follow(view.preview, apply(invert(view.to_frame), face.points))
            if marks is None:
                return None
            made = self._face(view, marks, None)
            made.score = face.score
            faces.append(made)
        return None if foretold is None else faces

    def _empty(self, frame: Frame) -> FrameView:
        preview, affine = upright_preview(frame, self._facts, self._side)
        shown = preview, np.asarray(affine, np.float64)
        small = cv2.resize(cv2.cvtColor(preview, cv2.COLOR_BGR2GRAY), SMALL, interpolation=cv2.INTER_AREA)
        return FrameView(frame, small.astype(np.float32) / np.float32(255), [], lambda: shown)

    def _complete(self, view: FrameView, *, embed: bool, hands: bool) -> None:
        settle(view.faces)
        for face in view.faces:
            if embed or face.crowded:
                self.embed(view, face)
            if hands:
                self.find_hands(view, face)


def settle(faces: list[FaceView]) -> None:
    """Among all faces of one frame: drop those that were seen twice, and mark those that crowd each other."""
    _drop_doubles(faces)
    _mark_crowds(faces)


def clipped(frame: Frame, box: NDArray[np.floating], *, margin: float) -> Box:
    """`box` grown by `margin`, in whole pixels inside the frame, never empty."""
    x0 = int(np.clip(np.floor(box[0] - margin), 0, frame.width - 2))
    y0 = int(np.clip(np.floor(box[1] - margin), 0, frame.height - 2))
    x1 = int(np.clip(np.ceil(box[2] + margin) + 1, x0 + 2, frame.width))
    y1 = int(np.clip(np.ceil(box[3] + margin) + 1, y0 + 2, frame.height))
    return x0, y0, x1, y1


def _region(frame: Frame, box: NDArray[np.float64]) -> tuple[Texture, NDArray[np.float64]]:
    """RGB 0..1 of the frame in `box` as models see it, and its upper left corner (x, y)."""
    whole = clipped(frame, box, margin=0.0)
    rgb, tones = region_to_rgb(frame, whole), tone_map_of(frame.colour)
    return rgb if tones.plain else tones.seen(rgb), np.array(whole[:2], np.float64)


def extent(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The box x0, y0, x1, y1 of landmarks (478, >=2)."""
    plane = np.ascontiguousarray(points[:VERTICES, :2].T)
    return np.concatenate([plane.min(axis=1), plane.max(axis=1)])


def _drop_doubles(faces: list[FaceView]) -> None:
    """Keep the surer of two views whose landmarks fell onto the same face."""
    for face in sorted(faces, key=lambda f: -f.score * f.presence):
        others = [other for other in faces if other is not face]
        if face in faces and others:
            shared = overlap(face.box, np.array([other.box for other in others]))
            for other, share in zip(others, shared, strict=True):
                if share > 0.6:
                    faces.remove(other)


def _mark_crowds(faces: list[FaceView]) -> None:
    for face in faces:
        face.crowded = any(
            other is not face and float(np.hypot(*(face.centre - other.centre))) < 0.9 * (face.size + other.size) / 2
            for other in faces
        )
