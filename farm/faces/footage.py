"""Clips of the person to be put in: which frames to look at, and whose face is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farm.errors import InputError
from farm.faces.candidate import SMALLEST, Candidate, FaceFinder, PictureBytes
from farm.faces.embed import SAME_PERSON, Embedding
from farm.media.colour import upright_preview
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import scan_timeline
from farm.media.stills import HEAD_BYTES, is_clip

LOOKED_AT = 300
"""Frames of a clip that are looked at, spread evenly over it."""

_PREVIEW = 1920
_STRANGERS = 0.1


@dataclass(frozen=True, slots=True)
class ClipFile:
    """A video file and what to call it in messages ("clip 1")."""

    path: Path
    label: str


def pictures_and_clips(files: Iterable[tuple[Path, str]]) -> tuple[list[PictureBytes], list[ClipFile]]:
    """Files of one person, each with what to call it, parted; which is which is told by their first bytes."""
    pictures: list[PictureBytes] = []
    clips: list[ClipFile] = []
    for path, label in files:
        with path.open("rb") as file:
            moving = is_clip(file.read(HEAD_BYTES))
        if moving:
            clips.append(ClipFile(path, label))
        else:
            pictures.append(PictureBytes(path.read_bytes(), label))
    return pictures, clips


def faces_of(clip: ClipFile, number: int, finder: FaceFinder, tick: Callable[[], None]) -> Iterator[list[Candidate]]:
    """The faces of each frame that is looked at; `number` is the clip's, `tick` is called for every frame."""
    facts = probe(clip.path)
    timeline = scan_timeline(clip.path, facts)
    step = max(1, -(-len(timeline) // LOOKED_AT))
    for frame in read_plate(clip.path, facts, timeline):
        tick()
        if frame.index % step == 0 and not frame.concealed:
            picture, _ = upright_preview(frame, facts, _PREVIEW)
            yield finder.in_frame(picture, clip.label, number, timeline.seconds(0, frame.index))


class Performer:
    """Says which face of a clip's frames is the one meant.

    `known` is who the pictures show. Without pictures it is the person of the first frame in which there is only one
    face; a clip in which others are seen as well then needs a picture, for nobody said who is meant.
    """

    def __init__(self, known: Embedding | None) -> None:
        self._sure = known is not None
        self._who = known
        self._seen = self._strange = 0

    def of(self, faces: list[Candidate]) -> Candidate | None:
        """The performer's face among those of one frame."""
        if not faces:
            return None
        if self._who is None:
            if len(faces) > 1:
                self._strange += 1
                self._seen += 1
                return None
            self._who = faces[0].embedding
        who = self._who
        best = max(faces, key=lambda face: float(face.embedding @ who))
        alike = float(best.embedding @ who) >= SAME_PERSON * 0.8
        self._seen += 1
        self._strange += len(faces) > 1 or not alike
        return best if alike else None

    def check(self, clip: ClipFile) -> None:
        """InputError where the clip shows nobody, or others as well and it was not said who is meant."""
        if self._seen == 0:
            raise InputError(
                f"No face of {SMALLEST} pixels or more was found in this clip.",
                where=clip.label,
                do="Send a clip that shows the person's face from the front, large and in good light.",
            )
        if not self._sure and self._strange > _STRANGERS * self._seen:
            raise InputError(
                "More than one person is seen in this clip, and it was not said who is meant.",
                where=clip.label,
                do="Add a picture of the person to the identity, or crop the clip.",
            )


def steadiest(candidates: list[Candidate]) -> Candidate:
    """The face that all others are measured by: frontal, large, sharp, eyes open, mouth at rest."""
    sharpest = {clip: max(c.sharpness for c in candidates if c.clip == clip) for clip in {c.clip for c in candidates}}

    def worth(candidate: Candidate) -> float:
        calm = 1.0 - min(0.5, float(np.abs(candidate.traits[5 + 25])))
        clear = candidate.sharpness / max(1e-6, sharpest[candidate.clip])
        return candidate.worth * calm * clear * (1.0 if candidate.eyes_open else 0.5)

    return max(candidates, key=worth)
