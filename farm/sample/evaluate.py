"""Judges a rendered sample plate by its truth: whose face is where, and what was left alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.faces.detect import Detection, Detector, overlap
from farm.faces.embed import SAME_PERSON, Embedder, Embedding
from farm.inference.session import Models
from farm.media.frame import Frame
from farm.sample.portrait import portrait_picture
from farm.sample.truth import Truth

Picture = NDArray[np.uint8]
Box = tuple[int, int, int, int]

_MIN_OVERLAP = 0.3
FACE_MARGIN = 0.25
"""How far past the landmarks' box, in its own width and height, a swap may change samples (its feather)."""


@dataclass(slots=True)
class PersonScore:
    """What became of one person of the plate.

    Attributes
    ----------
    shown: judged frames in which the truth calls the person visible. found: those in which a face was detected there.
    changed: found frames whose face is the wanted identity's (similarity over .363) and more like it than like the
        person's own portrait; always 0 where no identity was wanted.
    kept: found frames whose face is more like the person's own portrait than like any wanted identity.
    to_wanted, to_own: SFace similarity, one value a found frame (`to_wanted`: the largest over all wanted identities
        where this person was to stay).
    failed: frames that are neither as wanted nor undetected, for looking at.
    """

    identity: str
    wanted: bool
    shown: int = 0
    found: int = 0
    changed: int = 0
    kept: int = 0
    to_wanted: list[float] = field(default_factory=list)
    to_own: list[float] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)

    @property
    def as_wanted(self) -> float:
        """Share of the shown frames with the right face: the wanted one, or the person's own."""
        return (self.changed if self.wanted else self.kept) / max(self.shown, 1)


class Judge:
    """Looks at rendered frames one by one and keeps score.

    Parameters
    ----------
    models: loads "yunet" and "sface".
    truth: of the plate.
    wanted: plate identity → BGR picture of the face that was to be put on it. Nobody else was to change.
    """

    def __init__(self, models: Models, truth: Truth, wanted: Mapping[str, Picture]) -> None:
        self._detector, self._embedder = Detector(models.load("yunet")), Embedder(models.load("sface"))
        self._truth = truth
        self._own = [self._portrait(_read(portrait_picture(identity))) for identity in truth.identities]
        self._wanted = {truth.person(name): self._portrait(picture) for name, picture in wanted.items()}
        self._scores = [PersonScore(name, n in self._wanted) for n, name in enumerate(truth.identities)]

    def see(self, frame: int, result: Picture) -> None:
        """Judge frame `frame` of the rendered plate, uint8 (h, w, 3) BGR."""
        faces: list[Detection] | None = None
        for person, score in enumerate(self._scores):
            if not self._truth.visible[frame, person]:
                continue
            score.shown += 1
            faces = self._detector(result) if faces is None else faces
            face = find_person(self._truth, frame, person, faces)
            if face is None:
                continue
            seen = self._embedder(result, face.five)
            self._count(score, person, frame, seen)

    def report(self) -> dict[str, PersonScore]:
        """The scores so far, by plate identity."""
        return {score.identity: score for score in self._scores}

    def _count(self, score: PersonScore, person: int, frame: int, seen: Embedding) -> None:
        own = float(seen @ self._own[person])
        targets = [self._wanted[person]] if score.wanted else list(self._wanted.values())
        other = max((float(seen @ target) for target in targets), default=-1.0)
        score.found += 1
        score.to_own.append(own)
        score.to_wanted.append(other)
        changed = score.wanted and other > SAME_PERSON and other > own
        kept = own >= other
        score.changed += changed
        score.kept += kept
        if changed is not score.wanted or (not score.wanted and not kept):
            score.failed.append(frame)

    def _portrait(self, picture: Picture) -> Embedding:
        faces = self._detector(picture)
        if not faces:
            raise InputError("No face was found in an identity picture.", where="identity", do="Give a clear portrait.")
        return self._embedder(picture, faces[0].five)


def find_person(truth: Truth, frame: int, person: int, faces: Sequence[Detection]) -> Detection | None:
    """The detected face that lies where the truth has `person`, None where there is none."""
    if not faces:
        return None
    shared = overlap(truth.box[frame, person].astype(np.float64), np.stack([face.box for face in faces]))
    best = int(np.argmax(shared))
    return faces[best] if shared[best] >= _MIN_OVERLAP else None


def may_change(
    truth: Truth, frame: int, people: Collection[str], size: tuple[int, int], also: Iterable[Box] = ()
) -> NDArray[np.bool_]:
    """bool (h, w): where a render that changes only `people` may differ from the plate.

    Parameters
    ----------
    size: width and height. also: further boxes (x0, y0, x1, y1) that may change, such as the visible label's.
    """
    allowed = np.zeros((size[1], size[0]), np.bool_)
    for name in people:
        x0, y0, x1, y1 = truth.box[frame, truth.person(name)].tolist()
        margin_x, margin_y = FACE_MARGIN * (x1 - x0), FACE_MARGIN * (y1 - y0)
        _fill(allowed, (int(x0 - margin_x), int(y0 - margin_y), int(x1 + margin_x) + 1, int(y1 + margin_y) + 1))
    for box in also:
        _fill(allowed, box)
    return allowed


def changed_outside(plate: Frame, result: Frame, allowed: NDArray[np.bool_]) -> int:
    """How many samples differ where they must not.

    A subsampled sample may change if any pixel may that it covers, or that its siting lets it reach (one further).
    """
    count = 0
    for before, after in zip(plate.planes, result.planes, strict=True):
        here = allowed
        if before.shape != allowed.shape:
            shrink = (before.shape[1], before.shape[0])
            reach = cv2.dilate(allowed.astype(np.float32), np.ones((3, 3), np.uint8))
            here = cv2.resize(reach, shrink, interpolation=cv2.INTER_AREA) > 0
        count += int(np.count_nonzero((before != after) & ~here))
    return count


def read_pictures(path: Path) -> Iterator[tuple[int, Picture]]:
    """(pts, BGR uint8 (h, w, 3)) of every frame of a video file, in order."""
    with av.open(str(path)) as container:
        for decoded in container.decode(video=0):
            if decoded.pts is not None:
                yield decoded.pts, np.asarray(decoded.to_ndarray(format="bgr24"), np.uint8)


def _fill(mask: NDArray[np.bool_], box: Box) -> None:
    x0, y0, x1, y1 = (max(value, 0) for value in box)
    mask[y0:y1, x0:x1] = True


def _read(path: Path) -> Picture:
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        raise InputError("The picture cannot be read.", where=path.name, do="Install the package again.")
    return np.asarray(picture, np.uint8)
