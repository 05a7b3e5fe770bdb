"""The people of a plate: faces seen in sampled frames, gathered by person."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.embed import SAME_PERSON, Embedding, unit
from farm.faces.eyes import openness
from farm.faces.geometry import HeadPose, apply, crop_around, head_pose, invert, placement, scale_of
from farm.faces.mesh import VERTICES
from farm.faces.texture import Texture
from farm.faces.views import Analyst, FaceView, FrameView
from farm.media.frame import Frame

THUMBNAIL = 160
_JOIN = 0.45
_MERGE = SAME_PERSON
_KEPT_LOOKS = 64
_MIN_WORTH = 0.05
_SIDEWAYS = 40.0


@dataclass(frozen=True, slots=True, eq=False)
class FaceObservation:
    """One face in one sampled frame.

    Attributes
    ----------
    index, pts: of the frame. seconds: screen time that this sample stands for.
    box: float64[4], coded pixels. pose, presence: see `FaceView`. embedding: float32[128].
    worth: 0..1, how good a picture of the person it is (large, frontal, sharp, eyes open).
    shape: float32[468, 3], the face's form (see `Placement.undo`). texture: uint8[128, 128, 3] RGB.
    thumbnail: JPEG, upright, 160 pixels square.
    """

    index: int
    pts: int
    seconds: float
    box: NDArray[np.float64]
    pose: HeadPose
    presence: float
    embedding: Embedding
    worth: float
    shape: NDArray[np.float32]
    texture: NDArray[np.uint8]
    thumbnail: bytes


@dataclass(frozen=True, slots=True, eq=False)
class CastMember:
    """One person of a plate.

    Attributes
    ----------
    id: "person-1" has the most screen time; the same plate gives the same ids.
    embedding: mean direction over all sightings. thumbnail: JPEG of the best one.
    screen_seconds: estimated from the samples. first_pts, last_pts: of the first and last sighting.
    sightings: number of samples. rest: float64[468, 3], the median form of the face. texture: its median look, RGB.
    """

    id: str
    embedding: Embedding
    thumbnail: bytes
    screen_seconds: float
    first_pts: int
    last_pts: int
    sightings: int
    rest: NDArray[np.float64]
    texture: Texture


@dataclass(frozen=True, slots=True)
class Cast:
    """The members by falling screen time, and how many frames were looked at."""

    members: tuple[CastMember, ...]
    frames_seen: int = 0

    @property
    def lead(self) -> CastMember | None:
        return self.members[0] if self.members else None

    def to_bytes(self) -> bytes:
        """A compact, versioned form (NumPy .npz, no pickle)."""
        out = io.BytesIO()
        arrays: dict[str, NDArray[np.generic]] = {
            "version": np.array(1),
            "frames_seen": np.array(self.frames_seen),
            "ids": np.array([m.id for m in self.members], np.str_),
            "seconds": np.array([m.screen_seconds for m in self.members], np.float64),
            "pts": np.array([[m.first_pts, m.last_pts] for m in self.members], np.int64).reshape(-1, 2),
            "sightings": np.array([m.sightings for m in self.members], np.int64),
        }
        for number, member in enumerate(self.members):
            arrays[f"embedding_{number}"] = member.embedding
            arrays[f"thumbnail_{number}"] = np.frombuffer(member.thumbnail, np.uint8)
            arrays[f"rest_{number}"] = member.rest
            arrays[f"texture_{number}"] = np.round(member.texture * 255).astype(np.uint8)
        np.savez_compressed(out, allow_pickle=False, **arrays)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Cast:
        with np.load(io.BytesIO(data), allow_pickle=False) as z:
            members = tuple(
                CastMember(
                    id=str(name),
                    embedding=z[f"embedding_{number}"],
                    thumbnail=z[f"thumbnail_{number}"].tobytes(),
                    screen_seconds=float(z["seconds"][number]),
                    first_pts=int(z["pts"][number, 0]),
                    last_pts=int(z["pts"][number, 1]),
                    sightings=int(z["sightings"][number]),
                    rest=z[f"rest_{number}"],
                    texture=z[f"texture_{number}"].astype(np.float32) / np.float32(255),
                )
                for number, name in enumerate(z["ids"])
            )
            return cls(members, int(z["frames_seen"]))


def observe(frame: Frame, analyst: Analyst, *, seconds: float) -> list[FaceObservation]:
    """The faces of one sampled frame that stands for `seconds` of screen time."""
    view = analyst.look(frame, embed=True)
    return [_observation(view, face, seconds) for face in view.faces]


def build_cast(observations: Iterable[FaceObservation], *, frames_seen: int = 0) -> Cast:
    """Gather observations into people. Memory does not grow with the plate: each person keeps 64 sightings' looks.

    Every sighting joins the nearest group (cosine over .45) or starts one; groups whose means are over .363 alike are
    one person. The order of the observations is the plate's, which makes the result a function of the plate.
    """
    groups: list[_Group] = []
    for seen in observations:
        likeness = [float(group.mean @ seen.embedding) for group in groups]
        best = int(np.argmax(likeness)) if likeness else -1
        if best < 0 or likeness[best] < _JOIN:
            groups.append(_Group(seen))
        else:
            groups[best].add(seen)
    merged = _merged(groups)
    merged.sort(key=lambda group: (-group.seconds, group.first.index))
    members = tuple(group.member(f"person-{number + 1}") for number, group in enumerate(merged))
    return Cast(members, frames_seen)


class _Group:
    def __init__(self, seen: FaceObservation) -> None:
        self.sum = np.zeros_like(seen.embedding)
        self.first, self.last, self.best = seen, seen, seen
        self.seconds, self.count = 0.0, 0
        self.looks: list[FaceObservation] = []
        self._stride = 1
        self.add(seen)

    @property
    def mean(self) -> Embedding:
        return unit(self.sum)

    def add(self, seen: FaceObservation) -> None:
        self.sum += seen.embedding * np.float32(max(_MIN_WORTH, seen.worth))
        self.seconds += seen.seconds
        self.first = min(self.first, seen, key=lambda s: s.index)
        self.last = max(self.last, seen, key=lambda s: s.index)
        self.best = max(self.best, seen, key=lambda s: s.worth)
        if self.count % self._stride == 0:
            self.looks.append(seen)
        self.count += 1
        if len(self.looks) > _KEPT_LOOKS:
            self.looks = self.looks[::2]
            self._stride *= 2

    def absorb(self, other: _Group) -> None:
        self.sum += other.sum
        self.seconds += other.seconds
        self.count += other.count
        self.first = min(self.first, other.first, key=lambda s: s.index)
        self.last = max(self.last, other.last, key=lambda s: s.index)
        self.best = max(self.best, other.best, key=lambda s: s.worth)
        self.looks = (self.looks + other.looks)[: 2 * _KEPT_LOOKS]

    def member(self, name: str) -> CastMember:
        # Seen from the side, half of the form and of the look is guessed.
        chosen = [s for s in self.looks if abs(s.pose.yaw) < _SIDEWAYS] or self.looks
        return CastMember(
            id=name,
            embedding=self.mean,
            thumbnail=self.best.thumbnail,
            screen_seconds=self.seconds,
            first_pts=self.first.pts,
            last_pts=self.last.pts,
            sightings=self.count,
            rest=np.median([s.shape for s in chosen], axis=0).astype(np.float64),
            texture=np.asarray(np.median([s.texture for s in chosen], axis=0) / 255, np.float32),
        )


def _merged(groups: list[_Group]) -> list[_Group]:
    while len(groups) > 1:
        alike = np.array([g.mean for g in groups]) @ np.array([g.mean for g in groups]).T
        np.fill_diagonal(alike, -1)
        a, b = sorted(int(i) for i in np.unravel_index(int(np.argmax(alike)), alike.shape))
        if alike[a, b] < _MERGE:
            break
        groups[a].absorb(groups.pop(b))
    return groups


def _observation(view: FrameView, face: FaceView, seconds: float) -> FaceObservation:
    if face.embedding is None:
        raise ValueError("the face was not embedded")
    pose = head_pose(face.points)
    crop = _upright_crop(view, face)
    _, jpeg = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, 88])
    return FaceObservation(
        index=view.index,
        pts=view.frame.pts,
        seconds=seconds,
        box=face.box,
        pose=pose,
        presence=face.presence,
        embedding=face.embedding,
        worth=_worth(face, pose, crop),
        shape=placement(face.points).undo(face.points[:VERTICES]).astype(np.float32),
        texture=np.round(np.clip(face.texture, 0, 1) * 255).astype(np.uint8),
        thumbnail=jpeg.tobytes(),
    )


def _upright_crop(view: FrameView, face: FaceView) -> NDArray[np.uint8]:
    points = apply(invert(view.to_frame), face.points)[:VERTICES, :2]
    side = 1.7 * float(np.ptp(points, axis=0).max())
    affine = crop_around(points.mean(axis=0), side, 0.0, THUMBNAIL)
    mode = cv2.INTER_AREA if scale_of(affine) < 0.5 else cv2.INTER_LINEAR
    crop = cv2.warpAffine(view.preview, affine, (THUMBNAIL, THUMBNAIL), flags=mode, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(crop, np.uint8)


def _worth(face: FaceView, pose: HeadPose, crop: NDArray[np.uint8]) -> float:
    frontal = float(np.cos(np.radians(min(85, abs(pose.yaw)))) * np.cos(np.radians(min(85, abs(pose.pitch)))))
    large = min(1.0, face.size / 160)
    grey = cv2.cvtColor(crop, cv2.COLOR_BGR2GRAY)
    sharp = min(1.0, float(cv2.Laplacian(grey, cv2.CV_32F).std()) / 12)
    awake = 0.4 + 0.6 * min(1.0, openness(face.points) / 0.25)
    return frontal**2 * large * sharp * awake * face.presence
