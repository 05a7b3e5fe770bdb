"""Numbers about faces, the same for plate and rendered frame: who, which pose, which expression, how steady."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.detect import Detection, Detector, overlap
from farm.faces.embed import Embedder, Embedding
from farm.faces.expression import POINTS, gaze
from farm.faces.geometry import five_points, head_pose
from farm.faces.landmarks import Landmarker
from farm.inference.session import Models
from farm.sample.portrait import FACE_OVAL

Picture = NDArray[np.uint8]
Grey = NDArray[np.uint8]
Points = NDArray[np.float64]

_BLINKS = (9, 10)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one face shows. Angles in degrees; `mouth` is the inner lips' gap over the eyes' distance; `blink` 0..1
    (mean of both blendshapes); `gaze` where the irises stand between the eye corners, -1 left … 1 right."""

    points: Points
    yaw: float
    pitch: float
    roll: float
    mouth: float
    blink: float
    gaze: float
    embedding: Embedding | None


class FaceReader:
    """Reads faces with the bundled networks."""

    def __init__(self, models: Models) -> None:
        self._detector = Detector(models.load("yunet"))
        self._landmarker = Landmarker(models.load("face-landmarks-478"))
        self._embedder = Embedder(models.load("sface"))
        self._shapes = models.load("face-blendshapes-52")
        self._input = self._shapes.spec.inputs[0].name
        self._output = self._shapes.spec.outputs[0].name

    def detect(self, picture: Picture) -> list[Detection]:
        return self._detector(picture)

    def read(self, picture: Picture, face: Detection | None, *, points: Points | None = None) -> Reading:
        """Read the detected `face`; where `points` are given the landmark crop is taken from them, so that plate and
        result are read through the same window."""
        if points is not None:
            marks = self._landmarker.refine(picture, points).points
        elif face is not None:
            marks = self._landmarker(picture, face).points
        else:
            raise ValueError("a face or its points are needed")
        pose = head_pose(marks)
        five = five_points(marks) if face is None else face.five
        plane = marks[:, :2]
        eyes = float(np.linalg.norm(five_points(marks)[1] - five_points(marks)[0]))
        return Reading(
            points=marks,
            yaw=pose.yaw,
            pitch=pose.pitch,
            roll=pose.roll,
            mouth=float(np.linalg.norm(plane[13] - plane[14])) / eyes,
            blink=self._blink(plane),
            gaze=gaze(plane)[0],
            embedding=self._embedder(picture, five),
        )

    def _blink(self, plane: Points) -> float:
        weights = self._shapes.run(**{self._input: plane[list(POINTS)][None].astype(np.float32)})
        return float(np.mean(weights[self._output].reshape(-1)[list(_BLINKS)]))


def same_face(faces: list[Detection], points: Points) -> Detection | None:
    """The detection that lies on `points`, None where there is none."""
    if not faces:
        return None
    box = np.concatenate([points[:468, :2].min(0), points[:468, :2].max(0)])
    shared = overlap(box, np.stack([face.box for face in faces]))
    best = int(np.argmax(shared))
    return faces[best] if shared[best] > 0.3 else None


@dataclass(slots=True)
class Pairs:
    """Readings of plate and result side by side."""

    plate: list[Reading] = field(default_factory=list)
    result: list[Reading] = field(default_factory=list)

    def add(self, plate: Reading, result: Reading) -> None:
        self.plate.append(plate)
        self.result.append(result)

    def correlation(self, name: str) -> float:
        before, after = ([getattr(reading, name) for reading in readings] for readings in (self.plate, self.result))
        return float(np.corrcoef(before, after)[0, 1]) if np.std(before) > 0 and np.std(after) > 0 else 0.0

    def pose_error(self) -> float:
        """Mean absolute difference over yaw, pitch and roll, degrees."""
        both = [
            [[reading.yaw, reading.pitch, reading.roll] for reading in readings]
            for readings in (self.plate, self.result)
        ]
        return float(np.abs(np.subtract(*both)).mean())


def face_mask(points: Points, shape: tuple[int, int], shrink: float = 0.06) -> NDArray[np.bool_]:
    """bool (h, w): inside the face's outline, less a rim of `shrink` of its width."""
    mask = np.zeros(shape, np.uint8)
    oval = points[list(FACE_OVAL), :2]
    cv2.fillPoly(mask, [np.rint(oval).astype(np.int32)], 1)
    rim = max(int(shrink * np.ptp(oval[:, 0])), 1)
    return cv2.erode(mask, np.ones((2 * rim + 1, 2 * rim + 1), np.uint8)).astype(np.bool_)


def sharpness(picture: Picture, mask: NDArray[np.bool_]) -> float:
    """High-frequency energy: standard deviation of the luma's fine detail (σ 1.5 px removed) inside `mask`."""
    luma = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY).astype(np.float32)
    fine = luma - cv2.GaussianBlur(luma, (0, 0), 1.5)
    return float(fine[mask].std()) if mask.any() else 0.0


class Flicker:
    """Frame-to-frame change inside the face after motion is taken out, for plate and result.

    Each picture's motion is its own (dense optical flow), so that `ratio` tells what changes without moving. `swim`
    takes the plate's motion out of both: it also counts a face that does not move as the plate's does.
    """

    def __init__(self) -> None:
        self._flow = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        self._before: tuple[Grey, Grey] | None = None
        self._change: list[tuple[float, float, float]] = []

    def add(self, plate: Picture, result: Picture, mask: NDArray[np.bool_]) -> None:
        now = (cv2.cvtColor(plate, cv2.COLOR_BGR2GRAY), cv2.cvtColor(result, cv2.COLOR_BGR2GRAY))
        if self._before is not None and mask.any():
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
            old, new = ([np.ascontiguousarray(picture[part]) for picture in pair] for pair in (self._before, now))
            flows = [self._flow.calc(after, before, None) for before, after in zip(old, new, strict=True)]
            inside = mask[part]
            self._change.append(
                (
                    _left(old[0], new[0], flows[0], inside),
                    _left(old[1], new[1], flows[1], inside),
                    _left(old[1], new[1], flows[0], inside),
                )
            )
        self._before = now

    def cut(self) -> None:
        """The next frame does not continue this one."""
        self._before = None

    def ratio(self) -> float:
        """The result's mean change over the plate's."""
        plate, result, _ = np.mean(self._change, axis=0)
        return float(result / plate)

    def swim(self) -> float:
        """The same with the plate's motion taken out of both."""
        plate, _, result = np.mean(self._change, axis=0)
        return float(result / plate)


def _left(before: Grey, after: Grey, motion: NDArray[np.float32], inside: NDArray[np.bool_]) -> float:
    """Mean absolute change that is left when `before` is moved onto `after`."""
    rows, columns = np.indices(before.shape, np.float32)
    x, y = columns + motion[..., 0], rows + motion[..., 1]
    moved = cv2.remap(before, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return float(np.abs(after.astype(np.float32) - moved)[inside].mean())


def jitter(points: Iterable[Points]) -> float:
    """Root mean square distance of landmarks (frames × (468+, 2+)) from their mean place, pixels: a still head's."""
    stacked = np.stack([each[:468, :2] for each in points])
    return float(np.sqrt(np.mean(np.sum((stacked - stacked.mean(0)) ** 2, axis=2))))


def kept(plate: Picture, result: Picture, mask: NDArray[np.bool_], tolerance: int = 3) -> float:
    """Share of the pixels in `mask` whose channels all stay within `tolerance` code values of the plate's."""
    difference = np.abs(plate.astype(np.int16) - result.astype(np.int16)).max(axis=2)
    return float(np.mean(difference[mask] <= tolerance)) if mask.any() else 1.0
