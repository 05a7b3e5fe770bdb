"""The people of a plate: faces seen in sampled frames, gathered by person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.embed import SAME_PERSON, Embedding, unit
from farm.faces.eyes import openness
from farm.faces.geometry import HeadPose, apply, crop_around, head_pose, invert, placement, scale_of
from farm.faces.member import Appearance, Cast, CastMember, member_of
from farm.faces.mesh import VERTICES
from farm.faces.views import Analyst, FaceView, FrameView
from farm.media.frame import Frame

__all__ = ["Cast", "CastMember", "FaceObservation", "build_cast", "observe"]

THUMBNAIL = 160
GAP = 48
"""Frames for which a person may be unseen within one appearance, where the caller does not say."""
MOST_APPEARANCES = 24
SAMPLE_SECONDS = 0.5
MOST_SAMPLES = 2000
"""A person who is shown for half a second is seen in a plate of up to 17 minutes; longer ones are sampled thinner."""
GAP_SAMPLES = 4
"""Samples for which a person may be unseen within one appearance."""
_JOIN = 0.45
_MERGE = SAME_PERSON
_KEPT_LOOKS = 16
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
    shape: float32[468, 3], the face's form (see `Placement.undo`).
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
    thumbnail: bytes


def observe(frame: Frame, analyst: Analyst, *, seconds: float) -> list[FaceObservation]:
    """The faces of one sampled frame that stands for `seconds` of screen time."""
    return observed(analyst.look(analyst.upright(frame), embed=True), seconds)


def observed(view: FrameView, seconds: float) -> list[FaceObservation]:
    """The faces of a frame that was looked at with embeddings."""
    return [_observation(view, face, seconds) for face in view.faces]


def sampled(frames: int, seconds: float) -> range:
    """Frames of a plate to look at for its cast: one each half second, fewer where the plate is long."""
    wanted = min(MOST_SAMPLES, max(1.0, seconds / SAMPLE_SECONDS))
    return range(0, frames, max(1, int(frames / wanted)))


def build_cast(observations: Iterable[FaceObservation], *, frames_seen: int = 0, gap: int = GAP) -> Cast:
    """Gather observations into people. Memory grows with the number of appearances, not with the plate's length.

    Every sighting joins the nearest group (cosine over .45) or starts one; groups whose means are over .363 alike are
    one person. A person unseen for more than `gap` frames, seen twice in a frame, or who looks otherwise all of a
    sudden (under .363) makes a new appearance. The order of the observations is the plate's, which makes the result a
    function of the plate.
    """
    groups: list[_Group] = []
    for seen in observations:
        likeness = [float(group.mean @ seen.embedding) for group in groups]
        best = int(np.argmax(likeness)) if likeness else -1
        if best < 0 or likeness[best] < _JOIN:
            groups.append(_Group(seen))
        else:
            groups[best].add(seen, gap)
    merged = _merged(groups)
    merged.sort(key=lambda group: (-group.seconds, group.parts[0].first.index))
    members, given = [], 0
    for number, group in enumerate(merged, start=1):
        parts = [part.appearance(given + place) for place, part in enumerate(group.parts, start=1)]
        given += len(parts)
        members.append(member_of(f"person-{number}", parts))
    return Cast(tuple(members), frames_seen, len(members))


class _Part:
    """Sightings of one person in a row."""

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
        self.last = seen
        self.best = max(self.best, seen, key=lambda s: s.worth)
        if self.count % self._stride == 0:
            self.looks.append(seen)
        self.count += 1
        if len(self.looks) > _KEPT_LOOKS:
            self.looks = self.looks[::2]
            self._stride *= 2

    def absorb(self, other: _Part) -> None:
        self.sum += other.sum
        self.seconds += other.seconds
        self.count += other.count
        self.first = min(self.first, other.first, key=lambda s: s.index)
        self.last = max(self.last, other.last, key=lambda s: s.index)
        self.best = max(self.best, other.best, key=lambda s: s.worth)
        self.looks = (self.looks + other.looks)[:: 2 if len(self.looks) + len(other.looks) > _KEPT_LOOKS else 1]

    def appearance(self, number: int) -> Appearance:
        # Seen from the side, half of the form is guessed.
        chosen = [s for s in self.looks if abs(s.pose.yaw) < _SIDEWAYS] or self.looks
        return Appearance(
            number=number,
            total=self.sum,
            thumbnail=self.best.thumbnail,
            worth=self.best.worth,
            screen_seconds=self.seconds,
            first_pts=self.first.pts,
            last_pts=self.last.pts,
            sightings=self.count,
            rest=np.median([s.shape for s in chosen], axis=0).astype(np.float32),
        )


class _Group:
    """One person, as far as is known: appearances by time."""

    def __init__(self, seen: FaceObservation) -> None:
        self.parts = [_Part(seen)]
        self.sum = self.parts[0].sum.copy()

    @property
    def mean(self) -> Embedding:
        return unit(self.sum)

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    def add(self, seen: FaceObservation, gap: int) -> None:
        self.sum += seen.embedding * np.float32(max(_MIN_WORTH, seen.worth))
        # Two faces of one frame are never one appearance, however alike: so twins can be told apart by hand.
        open_ones = [part for part in self.parts if seen.index - gap <= part.last.index < seen.index]
        alike = [float(part.last.embedding @ seen.embedding) for part in open_ones]
        best = int(np.argmax(alike)) if alike else -1
        if best >= 0 and alike[best] >= SAME_PERSON:
            open_ones[best].add(seen)
        else:
            self.parts.append(_Part(seen))
            self._thin_out()

    def absorb(self, other: _Group) -> None:
        self.sum += other.sum
        self.parts = sorted(self.parts + other.parts, key=lambda part: part.first.index)
        self._thin_out()

    def _thin_out(self) -> None:
        """Join neighbours in time that are most alike, until there are few enough to be looked through."""
        while len(self.parts) > MOST_APPEARANCES:
            alike = [float(a.mean @ b.mean) for a, b in pairwise(self.parts)]
            nearest = int(np.argmax(alike))
            self.parts[nearest].absorb(self.parts.pop(nearest + 1))


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
