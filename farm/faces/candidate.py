"""Faces of one person in pictures and clips, from which an identity is made."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.faces.detect import Detection, Detector
from farm.faces.embed import Embedder, Embedding
from farm.faces.expression import Expressions, Traits
from farm.faces.eyes import openness
from farm.faces.geometry import five_points, head_pose
from farm.faces.landmarks import Landmarker
from farm.faces.mesh import VERTICES
from farm.faces.network import DETECTOR, EMBEDDER, LANDMARKER, UPSCALER, Networks

SMALLEST = 48
"""Faces under this many pixels tell too little."""

_COARSE = 160
_LARGEST_PICTURE = 4096
_LARGEST_FACE = 640.0
_MIN_PRESENCE = 0.5
_TELLING_SIDE = 128


@dataclass(frozen=True, slots=True)
class PictureBytes:
    """An encoded picture (JPEG, PNG, WebP, ...) and what to call it in messages ("picture 2")."""

    data: bytes
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One face of one picture or clip.

    Attributes
    ----------
    label: what to call its source in messages. clip: number of that source. seconds: where in the clip.
    picture: uint8[h, w, 3] BGR, the face and what is around it. points: float64[478, 3], landmarks in its pixels.
    size: the face's extent where it was found, pixels.
    """

    label: str
    clip: int
    seconds: float
    picture: NDArray[np.uint8]
    points: NDArray[np.float64]
    embedding: Embedding
    traits: Traits
    size: float

    @property
    def worth(self) -> float:
        """Large, frontal and sharp is good."""
        pose = head_pose(self.points)
        side = float(np.ptp(self.points[:VERTICES, 0]))
        return min(side, 400.0) * float(np.cos(np.radians(pose.yaw)) * np.cos(np.radians(pose.pitch)))

    @property
    def sharpness(self) -> float:
        """How much fine detail the face shows, whatever its size and light: compare within one clip only."""
        low, high = self.points[:VERTICES, :2].min(axis=0), self.points[:VERTICES, :2].max(axis=0)
        x0, y0 = np.maximum(low, 0).astype(int)
        x1, y1 = np.ceil(high).astype(int)
        part = self.picture[y0:y1, x0:x1]
        if 0 in part.shape:
            return 0.0
        grey = cv2.cvtColor(part, cv2.COLOR_BGR2GRAY)
        factor = _TELLING_SIDE * 2 / max(grey.shape)
        if factor < 1:
            grey = cv2.resize(grey, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
        light = grey.astype(np.float32)
        return float((light - cv2.GaussianBlur(light, (0, 0), 1.5)).std() / (light.mean() + 8))

    @property
    def eyes_open(self) -> bool:
        return openness(self.points) > 0.18

    def enlarged(self, networks: Networks) -> Candidate:
        """The same face with twice the pixels where it has few of them."""
        if np.ptp(self.points[:VERTICES, :2], axis=0).max() >= _COARSE:
            return self
        tensor = np.ascontiguousarray(self.picture[:, :, ::-1].transpose(2, 0, 1), np.float32)[None] / np.float32(255)
        larger = networks.load(UPSCALER).run(data=tensor)["output"][0]
        bgr = np.clip(np.round(larger.transpose(1, 2, 0)[:, :, ::-1] * 255), 0, 255).astype(np.uint8)
        points = self.points.copy()
        points[:, :2] = (points[:, :2] + 0.5) * 2 - 0.5
        points[:, 2] *= 2
        return Candidate(
            self.label,
            self.clip,
            self.seconds,
            np.ascontiguousarray(bgr),
            points,
            self.embedding,
            self.traits,
            self.size,
        )


class FaceFinder:
    """Finds the faces that identities are made of."""

    def __init__(self, networks: Networks) -> None:
        self._detect = Detector(networks.load(DETECTOR))
        self._landmarks = Landmarker(networks.load(LANDMARKER))
        self._embed = Embedder(networks.load(EMBEDDER))
        self._expressions = Expressions(networks)

    def in_picture(self, source: PictureBytes, face: int | None, clip: int) -> Candidate:
        """The face meant; InputError where there is none, several and no choice, or a tiny one."""
        picture = read_picture(source)
        chosen = _chosen(self._detect(picture), face, source.label)
        if chosen.size < SMALLEST:
            raise InputError(
                f"The face is {chosen.size:.0f} pixels large; at least {SMALLEST} are needed, and 250 look good.",
                where=source.label,
                do="Send a larger picture of the person.",
            )
        points = self._landmarks(picture, chosen).points
        return self._candidate(source.label, clip, 0.0, picture, points)

    def in_frame(self, picture: NDArray[np.uint8], label: str, clip: int, seconds: float) -> list[Candidate]:
        """All faces of a clip's frame (h, w, 3) BGR that are large and sure enough."""
        found = []
        for face in self._detect(picture):
            marks = self._landmarks(picture, face)
            if face.size >= SMALLEST and marks.presence >= _MIN_PRESENCE:
                found.append(self._candidate(label, clip, seconds, picture, marks.points, limited=True))
        return found

    def _candidate(
        self,
        label: str,
        clip: int,
        seconds: float,
        picture: NDArray[np.uint8],
        points: NDArray[np.float64],
        *,
        limited: bool = False,
    ) -> Candidate:
        size = float(np.ptp(points[:VERTICES, :2], axis=0).max())
        embedding = self._embed(picture, five_points(points))
        traits = self._expressions(points)
        cut, moved = _cut_out(picture, points, _LARGEST_FACE if limited else np.inf)
        return Candidate(label, clip, seconds, cut, moved, embedding, traits, size)


def read_picture(picture: PictureBytes) -> NDArray[np.uint8]:
    """The picture as upright BGR (h, w, 3): its EXIF orientation is applied, transparency dropped."""
    data = np.frombuffer(picture.data, np.uint8)
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None
    if decoded is None:
        raise InputError(
            "This is not a picture that can be read.",
            where=picture.label,
            do="Send a JPEG, PNG, WebP or TIFF file.",
        )
    bgr = np.asarray(decoded, np.uint8)
    factor = _LARGEST_PICTURE / max(bgr.shape[:2])
    if factor < 1:
        bgr = np.asarray(cv2.resize(bgr, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA), np.uint8)
    return bgr


def _cut_out(
    picture: NDArray[np.uint8], points: NDArray[np.float64], largest: float
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """The picture around the face, made smaller where the face is `largest` pixels or more, and the points in it."""
    plane = points[:VERTICES, :2]
    side = np.ptp(plane, axis=0).max()
    low = np.maximum(np.floor(plane.min(axis=0) - 0.4 * side), 0).astype(int)
    high = np.minimum(np.ceil(plane.max(axis=0) + 0.4 * side), np.array(picture.shape[1::-1])).astype(int)
    cut = np.ascontiguousarray(picture[low[1] : high[1], low[0] : high[0]])
    moved = points - [*low, 0]
    factor = largest / side
    if factor >= 1:
        return cut, moved
    small = cv2.resize(cut, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    moved[:, :2] = (moved[:, :2] + 0.5) * factor - 0.5
    moved[:, 2] *= factor
    return np.asarray(small, np.uint8), moved


def _chosen(faces: list[Detection], face: int | None, label: str) -> Detection:
    if not faces:
        raise InputError(
            "No face was found in this picture.",
            where=label,
            do="Send a picture that shows the person's face from the front, large and in good light.",
        )
    ordered = sorted(faces, key=lambda found: float(found.box[0] + found.box[2]))
    if face is None:
        if len(ordered) > 1:
            raise InputError(
                f"{len(ordered)} faces were found in this picture, and it was not said which one is meant.",
                where=label,
                do=f"Choose one by its number, 0 to {len(ordered) - 1} from left to right, or crop the picture.",
            )
        return ordered[0]
    if not 0 <= face < len(ordered):
        raise InputError(
            f"Face {face} was chosen, but {len(ordered)} were found in this picture.",
            where=label,
            do=f"Choose a number from 0 to {len(ordered) - 1}, counted from left to right.",
        )
    return ordered[face]
