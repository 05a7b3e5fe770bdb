"""The measurements of bench/faces.py, one function each; every number comes from rendered frames."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.common import median_seconds
from bench.face_jobs import FaceJob
from bench.face_measures import FaceReader, Flicker, Pairs, face_mask, jitter, kept, same_face, sharpness
from bench.hand_keys import HANDS, hand_mask
from farm.faces.detect import Detection, overlap
from farm.faces.embed import Embedding
from farm.faces.report import FrameReport, Outcome
from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.writer import ChunkWriter
from farm.sample import Truth
from farm.sample.evaluate import Judge, PersonScore, changed_outside, find_person, may_change

Picture = NDArray[np.uint8]


@dataclass(slots=True)
class Likeness:
    """Everything read from one person of one render, frame by frame."""

    to_identity: list[float] = field(default_factory=list)
    to_original: list[float] = field(default_factory=list)
    pairs: Pairs = field(default_factory=Pairs)
    flicker: Flicker = field(default_factory=Flicker)
    sharp: list[tuple[float, float]] = field(default_factory=list)
    hands: list[float] = field(default_factory=list)
    hands_on_face: list[float] = field(default_factory=list)
    outside: int = 0
    frames: int = 0
    sheet: list[tuple[int, Picture, Picture]] = field(default_factory=list)

    @property
    def sharpness_ratio(self) -> float:
        plate, result = np.mean(self.sharp, axis=0)
        return float(result / plate)


def measure_person(
    job: FaceJob,
    reader: FaceReader,
    identity: Embedding,
    *,
    truth: Truth | None = None,
    person: int = 0,
    sheet_at: tuple[int, ...] = (),
    keys: bool = False,
) -> Likeness:
    """Render the whole plate as one chunk and read one person in plate and result.

    Without a truth the person is the largest face. With one, frames in which the truth does not call the person
    visible and at least 95 % uncovered are not read. `keys`: the plate is the one that `HANDS` belongs to.
    """
    found = Likeness()
    for plate, rendered in zip(job.plate(), job.render(), strict=True):
        mask = np.zeros(job.size[::-1], np.bool_) if rendered.mask is None else rendered.mask > 0
        found.outside += changed_outside(plate, rendered.frame, mask)
        found.frames += 1
        before, after = job.bgr(plate), job.bgr(rendered.frame)
        if plate.index in sheet_at:
            found.sheet.append((plate.index, before, after))
        if keys and plate.index in HANDS:
            _read_hand(found, reader, plate.index, before, after)
        face = _face(reader.detect(before), plate.index, truth, person)
        if face is None:
            found.flicker.cut()
            continue
        _read_face(found, reader, identity, before, after, face, plate.index)
    return found


def _face(faces: list[Detection], frame: int, truth: Truth | None, person: int) -> Detection | None:
    if truth is None:
        return faces[0] if faces else None
    clear = truth.visible[frame, person] and truth.occluded[frame, person] < 0.05 and truth.inside[frame, person] > 0.98
    return find_person(truth, frame, person, faces) if clear else None


def _read_face(
    found: Likeness,
    reader: FaceReader,
    identity: Embedding,
    before: Picture,
    after: Picture,
    face: Detection,
    frame: int,
) -> None:
    first = reader.read(before, face)
    shown = same_face(reader.detect(after), first.points)
    second = reader.read(after, shown, points=first.points)
    found.pairs.add(first, second)
    # a result in which no face is found any more counts as like nobody
    found.to_identity.append(float(second.embedding @ identity) if shown is not None else 0.0)
    found.to_original.append(float(second.embedding @ first.embedding) if shown is not None else 0.0)
    mask = face_mask(first.points, before.shape[:2])
    found.flicker.add(before, after, mask)
    if frame % 4 == 0:
        found.sharp.append((sharpness(before, mask), sharpness(after, mask)))


def _read_hand(found: Likeness, reader: FaceReader, frame: int, before: Picture, after: Picture) -> None:
    hand = hand_mask(frame, before.shape[:2])
    found.hands.append(kept(before, after, hand))
    faces = reader.detect(before)
    if faces:
        face = face_mask(reader.read(before, faces[0]).points, before.shape[:2], shrink=0.0)
        found.hands_on_face.append(kept(before, after, hand & face))


def frames_that_differ(job: FaceJob, chunks: int = 12) -> int:
    """How many frames of the render as one chunk and as `chunks` are not the same, bit for bit."""
    one, many = job.digests(1), job.digests(chunks)
    return sum(a != b for a, b in zip(one, many, strict=True))


@dataclass(frozen=True, slots=True)
class Crossing:
    """`wrong`: frames in which a face was given another person's identity. `scores`: the look of the faces."""

    wrong: int
    scores: dict[str, PersonScore]
    untouched_changed: int


def judge_identities(job: FaceJob, truth: Truth, wanted: dict[str, Picture]) -> Crossing:
    """Render the generated plate and judge every frame by the truth.

    `untouched_changed`: samples changed outside the boxes of the people in `wanted`.
    """
    judge = Judge(job.models, truth, wanted)
    wrong = changed = 0
    for plate, rendered in zip(job.plate(), job.render(), strict=True):
        frame = plate.index
        wrong += _given_to_the_wrong(rendered.report, truth, frame, job.members)
        changed += changed_outside(plate, rendered.frame, may_change(truth, frame, list(wanted), job.size))
        judge.see(frame, job.bgr(rendered.frame))
    return Crossing(wrong, judge.report(), changed)


def _given_to_the_wrong(report: FrameReport, truth: Truth, frame: int, members: dict[str, str]) -> bool:
    """Whether a swapped face of the frame lies on a person whose cast member it was not taken for."""
    for face in report.faces:
        if face.outcome is not Outcome.SWAPPED:
            continue
        shared = overlap(np.array(face.box), truth.box[frame].astype(np.float64))
        # where one stands before the other the box of the nearer one decides; covered people cannot be swapped rightly
        order = [p for p in np.argsort(-shared) if truth.occluded[frame, p] < 0.9]
        there = truth.identities[int(order[0])]
        if members.get(there) != face.person:
            return True
    return False


def still_jitter(job: FaceJob, reader: FaceReader, truth: Truth) -> tuple[float, float]:
    """(plate, result): landmark jitter of still heads, pixels, mean over the people."""
    marks: dict[int, tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]] = {}
    window: dict[int, NDArray[np.float64]] = {}
    for plate, rendered in zip(job.plate(), job.render(), strict=True):
        pictures = job.bgr(plate), job.bgr(rendered.frame)
        for person in range(len(truth.identities)):
            if person not in window:
                face = find_person(truth, plate.index, person, reader.detect(pictures[0]))
                if face is None:
                    raise RuntimeError("the first frame of a still plate shows everyone")
                window[person] = reader.read(pictures[0], face).points
            for kept_marks, picture in zip(marks.setdefault(person, ([], [])), pictures, strict=True):
                kept_marks.append(reader.read(picture, None, points=window[person]).points)
    plate_px, result_px = (statistics.mean(jitter(both[side]) for both in marks.values()) for side in (0, 1))
    return plate_px, result_px


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


def contact_sheet(path: Path, shots: list[tuple[int, Picture, Picture]]) -> None:
    """Plate and result side by side at full size, one frame a row."""
    rows = []
    for frame, before, after in shots:
        row = np.hstack([before, after])
        cv2.putText(row, f"{frame}", (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (0, 255, 255), 1, cv2.LINE_AA)
        rows.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.vstack(rows))
