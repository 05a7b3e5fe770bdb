"""The measurements of bench/faces.py: observers that look at every frame of one render, each for one thing."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.common import median_seconds
from bench.face_jobs import FaceJob, digest_of
from bench.face_measures import FaceReader, Flicker, Pairs, face_mask, jitter, kept, same_face, sharpness
from bench.hand_keys import HANDS, hand_mask
from farm.faces.detect import Detection, overlap
from farm.faces.embed import Embedding
from farm.faces.pipeline import Rendered
from farm.faces.report import Outcome
from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.frame import Frame
from farm.media.writer import ChunkWriter
from farm.sample import Truth
from farm.sample.evaluate import Judge, changed_outside, find_person, may_change

Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Shot:
    """One frame of the plate and of the render, as samples and as BGR pictures."""

    index: int
    plate: Frame
    rendered: Rendered
    before: Picture
    after: Picture


class Observer(Protocol):
    def see(self, shot: Shot) -> None: ...


def watch(job: FaceJob, *observers: Observer, last: int | None = None) -> None:
    """Render the plate (up to frame `last`) once, as one chunk, and show every frame to every observer."""
    for plate, rendered in zip(islice(job.plate(), last), job.render(0, last), strict=True):
        shot = Shot(plate.index, plate, rendered, job.bgr(plate), job.bgr(rendered.frame))
        for observer in observers:
            observer.see(shot)


class Likeness:
    """Who one person looks like, and whether pose, expression, steadiness and sharpness follow the plate.

    Without a truth the person is the largest face. With one, only frames count in which the truth calls the person
    visible, at least 95 % uncovered and wholly in the picture.
    """

    def __init__(self, reader: FaceReader, identity: Embedding, *, truth: Truth | None = None, person: int = 0) -> None:
        self._reader, self._identity, self._truth, self._person = reader, identity, truth, person
        self.to_identity: list[float] = []
        self.to_original: list[float] = []
        self.pairs = Pairs()
        self.flicker = Flicker()
        self._sharp: list[tuple[float, float]] = []
        self._gaze: list[tuple[float, float, float]] = []

    def gaze_by_truth(self) -> tuple[float, float]:
        """Correlation of the gaze that is read in the plate, and in the result, with the true one."""
        true, plate, result = np.array(self._gaze).T
        return tuple(float(np.corrcoef(true, read)[0, 1]) for read in (plate, result))  # type: ignore[return-value]

    @property
    def sharpness_ratio(self) -> float:
        plate, result = np.mean(self._sharp, axis=0)
        return float(result / plate)

    def see(self, shot: Shot) -> None:
        face = self._face(shot)
        if face is None:
            self.flicker.cut()
            return
        first = self._reader.read(shot.before, face)
        shown = same_face(self._reader.detect(shot.after), first.points)
        second = self._reader.read(shot.after, shown, points=first.points)
        self.pairs.add(first, second)
        if self._truth is not None:
            self._gaze.append((float(self._truth.gaze[shot.index, self._person]), first.gaze, second.gaze))
        # a result in which no face is found any more counts as like nobody
        found = shown is not None
        self.to_identity.append(float(second.embedding @ self._identity) if found else 0.0)
        self.to_original.append(float(second.embedding @ first.embedding) if found else 0.0)
        mask = face_mask(first.points, shot.before.shape[:2])
        self.flicker.add(shot.before, shot.after, mask)
        if shot.index % 4 == 0:
            self._sharp.append((sharpness(shot.before, mask), sharpness(shot.after, mask)))

    def _face(self, shot: Shot) -> Detection | None:
        truth, person, frame = self._truth, self._person, shot.index
        if truth is None:
            faces = self._reader.detect(shot.before)
            return faces[0] if faces else None
        clear = truth.visible[frame, person] and truth.occluded[frame, person] < 0.05
        if not clear or truth.inside[frame, person] < 0.98:
            return None
        return find_person(truth, frame, person, self._reader.detect(shot.before))


class Outside:
    """Samples that changed where the render's own mask says that nothing did."""

    def __init__(self) -> None:
        self.changed = 0
        self.frames = 0

    def see(self, shot: Shot) -> None:
        mask = shot.rendered.mask
        allowed = np.zeros(shot.before.shape[:2], np.bool_) if mask is None else mask > 0
        self.changed += changed_outside(shot.plate, shot.rendered.frame, allowed)
        self.frames += 1


class Hands:
    """Whether hands before the face stay the plate's, in the frames that have hand keys."""

    def __init__(self, reader: FaceReader) -> None:
        self._reader = reader
        self.whole: list[float] = []
        self.on_face: list[float] = []

    def see(self, shot: Shot) -> None:
        if shot.index not in HANDS:
            return
        hand = hand_mask(shot.index, shot.before.shape[:2])
        self.whole.append(kept(shot.before, shot.after, hand))
        for face in self._reader.detect(shot.before)[:1]:
            over = face_mask(self._reader.read(shot.before, face).points, hand.shape, shrink=0.0)
            self.on_face.append(kept(shot.before, shot.after, hand & over))


class Digests:
    """sha256 of every rendered frame."""

    def __init__(self) -> None:
        self.frames: list[str] = []

    def see(self, shot: Shot) -> None:
        self.frames.append(digest_of(shot.rendered.frame))

    def differ(self, job: FaceJob, chunks: int = 12, last: int | None = None) -> int:
        """How many frames of the same job (up to `last`) rendered as `chunks` chunks are not these, bit for bit."""
        return sum(a != b for a, b in zip(self.frames, job.digests(chunks, last), strict=True))


class Identities:
    """Judges everybody in the generated plate by the truth.

    Attributes
    ----------
    wrong: frames in which a face was given an identity meant for another person.
    changed_elsewhere: samples changed outside the faces of the people in `wanted`.
    """

    def __init__(self, job: FaceJob, truth: Truth, wanted: dict[str, Picture]) -> None:
        self._job, self._truth, self._wanted = job, truth, wanted
        self.judge = Judge(job.models, truth, wanted)
        self.wrong = 0
        self.changed_elsewhere = 0

    def see(self, shot: Shot) -> None:
        allowed = may_change(self._truth, shot.index, list(self._wanted), self._job.size)
        self.changed_elsewhere += changed_outside(shot.plate, shot.rendered.frame, allowed)
        self.wrong += self._misplaced(shot)
        self.judge.see(shot.index, shot.after)

    def _misplaced(self, shot: Shot) -> bool:
        """Whether a swapped face lies on a person whose cast member it was not taken for."""
        for face in shot.rendered.report.faces:
            if face.outcome is not Outcome.SWAPPED:
                continue
            shared = overlap(np.array(face.box), self._truth.box[shot.index].astype(np.float64))
            # where one stands before the other, the face that is seen there is the nearer one's
            seen = np.where(self._truth.occluded[shot.index] < 0.9, shared, -1.0)
            there = self._truth.identities[int(np.argmax(seen))]
            if self._job.members.get(there) != face.person:
                return True
        return False


class Sheet:
    """A contact sheet: chosen frames, plate and result side by side at full size."""

    def __init__(self, path: Path, frames: tuple[int, ...]) -> None:
        self._path, self._frames = path, frozenset(frames)
        self._rows: list[Picture] = []

    def see(self, shot: Shot) -> None:
        if shot.index in self._frames:
            row = np.hstack([shot.before, shot.after])
            cv2.putText(row, str(shot.index), (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (0, 255, 255), 1, cv2.LINE_AA)
            self._rows.append(row)

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(self._path), np.vstack(self._rows))


class StillMarks:
    """Landmark jitter of heads that do not move; everyone is read through the window of the first frame."""

    def __init__(self, reader: FaceReader, truth: Truth) -> None:
        self._reader, self._truth = reader, truth
        self._windows: list[NDArray[np.float64]] = []
        self._marks: list[tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]] = []

    def see(self, shot: Shot) -> None:
        if not self._windows:
            faces = self._reader.detect(shot.before)
            for person in range(len(self._truth.identities)):
                face = find_person(self._truth, shot.index, person, faces)
                if face is None:
                    raise RuntimeError("the first frame of a still plate shows everyone")
                self._windows.append(self._reader.read(shot.before, face).points)
                self._marks.append(([], []))
        for window, marks in zip(self._windows, self._marks, strict=True):
            for kept_marks, picture in zip(marks, (shot.before, shot.after), strict=True):
                kept_marks.append(self._reader.read(picture, None, points=window).points)

    def pixels(self) -> tuple[float, float]:
        """(plate, result), mean over the people."""
        plate, result = (statistics.mean(jitter(both[side]) for both in self._marks) for side in (0, 1))
        return plate, result


def frames_a_second(job: FaceJob, frames: int, repeats: int = 3) -> float:
    """Decode, render and encode the plate's first `frames` frames; the median run."""
    plan = chunk_encoder(deliverable("h264"), job.facts, hardware=False, threads=0)

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "chunk"
            with ChunkWriter(path, plan, job.facts, job.timeline, 0, frames) as writer:
                for rendered in job.render(0, frames):
                    writer.write(rendered.frame, rendered.mask)
                writer.close()

    work()  # the first run pays for cold caches
    return frames / median_seconds(work, repeats)
