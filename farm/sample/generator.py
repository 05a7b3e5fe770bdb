"""Makes the sample plate: people whose every pose is known, before a moving background, with a click track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from farm import __version__
from farm.errors import InputError
from farm.sample.bust import Bust, Drawn, Pose
from farm.sample.clip import ClipWriter, click_track, codec
from farm.sample.motion import EVENTS_FROM, Moment, Part
from farm.sample.portrait import FACE_OVAL, IDENTITIES, load_portrait
from farm.sample.stage import Stage
from farm.sample.truth import Truth

FACE_SHARE = 0.21
"""Width of a face as a share of the picture's height, at a person's usual size."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A finished sample plate and the truth about it."""

    plate: Path
    truth: Path


@dataclass(frozen=True, slots=True)
class Seen:
    """What one frame shows of one person; fields as in `Truth`."""

    visible: bool
    occluded: float
    inside: float
    pose: tuple[float, float, float]
    landmarks: NDArray[np.float32]
    box: tuple[float, float, float, float]
    lids: float
    jaw: float
    gaze: float


class Scene:
    """The people and the room; draws any moment, in any order, the same each time.

    Parameters
    ----------
    seconds: length that the choreography is spread over.
    size: width and height of the pictures.
    identities: who is in it, the one who starts on the left first.
    seed: everything random comes from it.
    events: whether people cross and leave. still: nobody moves (for measuring jitter).
    """

    def __init__(
        self,
        *,
        seconds: float,
        size: tuple[int, int],
        identities: tuple[str, ...] = IDENTITIES,
        seed: int = 7,
        events: bool = True,
        still: bool = False,
    ) -> None:
        self._size = size
        self._stage = Stage(size, seed)
        alone = len(identities) == 1
        self._parts = [Part(n, seconds, seed, alone, events, still) for n in range(len(identities))]
        portraits = [load_portrait(identity) for identity in identities]
        self._scales = [FACE_SHARE * size[1] / portrait.face_width for portrait in portraits]
        self._busts = [Bust(p, 1.1 * scale) for p, scale in zip(portraits, self._scales, strict=True)]

    def draw(self, t: float, index: int) -> tuple[NDArray[np.uint8], list[Seen]]:
        """The picture, uint8 (h, w, 3) BGR, `t` seconds into the plate; `index` chooses the grain."""
        picture = self._stage.background(t)
        moments = [part.at(t) for part in self._parts]
        order = sorted(range(len(moments)), key=lambda person: moments[person].nearness)
        drawn: dict[int, Drawn | None] = {}
        for person in order:
            pose = self._pose(person, moments[person])
            drawn[person] = self._busts[person].draw(picture, pose, moments[person].expression, self._stage.light(t))
        self._stage.foreground(picture)
        seen = []
        for person, moment in enumerate(moments):
            before = [drawn[other] for other in order[order.index(person) + 1 :]]
            seen.append(self._seen(person, moment, [layer for layer in before if layer is not None]))
        return self._stage.finish(picture, t, index), seen

    def _pose(self, person: int, moment: Moment) -> Pose:
        return Pose(
            x=moment.x * self._size[0],
            y=moment.y * self._size[1],
            scale=self._scales[person] * moment.size,
            yaw=moment.yaw,
            pitch=moment.pitch,
            roll=moment.roll,
            body_yaw=moment.body_yaw,
            body_roll=moment.body_roll,
        )

    def _seen(self, person: int, moment: Moment, layers: list[Drawn]) -> Seen:
        bust = self._busts[person]
        points = bust.project(bust.face.landmarks(moment.expression), self._pose(person, moment))
        inside, occluded = self._coverage(points[list(FACE_OVAL)], layers)
        low, high = points.min(0), points.max(0)
        return Seen(
            visible=inside >= 0.5 and occluded < 0.5,
            occluded=occluded,
            inside=inside,
            pose=(moment.yaw, moment.pitch, moment.roll),
            landmarks=points.astype(np.float32),
            box=(float(low[0]), float(low[1]), float(high[0]), float(high[1])),
            lids=moment.expression.lid_left,
            jaw=moment.expression.jaw,
            gaze=moment.expression.gaze,
        )

    def _coverage(self, oval: NDArray[np.float64], layers: list[Drawn]) -> tuple[float, float]:
        """(share of the face inside the picture, share of that which nearer people cover)."""
        width, height = self._size
        low = np.floor(oval.min(0)).astype(int)
        wide, tall = np.ceil(oval.max(0)).astype(int) - low + 1
        face = np.zeros((tall, wide), np.uint8)
        cv2.fillPoly(face, [np.rint(oval - low).astype(np.int32)], 1)
        x0, y0 = max(0, -low[0]), max(0, -low[1])
        x1, y1 = min(wide, width - low[0]), min(tall, height - low[1])
        whole = int(face.sum())
        if x1 <= x0 or y1 <= y0:
            return 0.0, 0.0
        shown = face[y0:y1, x0:x1].astype(np.float32)
        cover = np.zeros_like(shown)
        for layer in layers:
            _lay_over(cover, (low[0] + x0, low[1] + y0), layer)
        part = float(shown.sum())
        return part / whole, float((shown * cover).sum()) / max(part, 1.0)


def _lay_over(cover: NDArray[np.float32], origin: tuple[int, int], layer: Drawn) -> None:
    """Raise `cover`, whose corner lies at `origin` of the picture, to the layer's alpha."""
    x0, y0, x1, y1 = layer.box
    left, top = max(x0, origin[0]), max(y0, origin[1])
    right, bottom = min(x1, origin[0] + cover.shape[1]), min(y1, origin[1] + cover.shape[0])
    if left < right and top < bottom:
        part = cover[top - origin[1] : bottom - origin[1], left - origin[0] : right - origin[0]]
        np.maximum(part, layer.alpha[top - y0 : bottom - y0, left - x0 : right - x0], out=part)


def generate(
    out_dir: Path,
    *,
    seconds: float | Fraction = 24,
    fps: Fraction = Fraction(24),
    size: tuple[int, int] = (1280, 720),
    people: int = 2,
    identities: Sequence[str] | None = None,
    seed: int = 7,
    codec_name: str = "h264",
    vfr: bool = False,
    events: bool | None = None,
    still: bool = False,
    name: str = "sample",
) -> Sample:
    """Write `name`.mp4 (.mkv for ffv1) and `name`.truth.npz into `out_dir`.

    The same arguments give the same pictures and truth; the same library versions give the same bytes.

    Parameters
    ----------
    seconds, fps, size, people, seed: length, rate, even width and height, 1 or 2 people, source of all chance.
    identities: who they are, instead of the first `people` of `IDENTITIES`.
    codec_name: one of `farm.sample.clip.CODECS`.
    vfr: hold every fifth frame for two periods: a variable frame rate.
    events: whether people cross and leave the picture; None for yes from `EVENTS_FROM` seconds on.
    still: nobody moves.

    Raises InputError for sizes and counts that cannot be.
    """
    cast = tuple(IDENTITIES[:people] if identities is None else identities)
    _check(size, people if identities is None else len(cast), seconds, fps)
    how = codec(codec_name)
    length = Fraction(seconds).limit_denominator(1_000_000)
    periods = _schedule(round(length * fps), vfr)
    happens = float(length) >= EVENTS_FROM if events is None else events
    scene = Scene(seconds=float(length), size=size, identities=cast, seed=seed, events=happens, still=still)
    out_dir.mkdir(parents=True, exist_ok=True)
    plate, truth = out_dir / f"{name}{how.suffix}", out_dir / f"{name}.truth.npz"
    beat = max(round(fps), 1)
    clicks = [index for index, period in enumerate(periods) if period % beat == 0]
    shown: list[list[Seen]] = []
    with ClipWriter(plate, how, size=size, fps=fps, time_base=1 / fps) as writer:
        for index, period in enumerate(periods):
            picture, seen = scene.draw(float(period / fps), index)
            writer.write(picture, period)
            shown.append(seen)
        writer.finish(click_track([periods[index] / fps for index in clicks], length))
    describe = {
        "identities": list(cast),
        "seed": seed,
        "size": list(size),
        "fps": str(fps),
        "time_base": str(1 / fps),
        "seconds": str(length),
        "codec": codec_name,
        "vfr": vfr,
        "events": happens,
        "still": still,
        "pose": "degrees; yaw > 0 nose to picture right, pitch > 0 nods down, roll > 0 clockwise; 0 as in the portrait",
        "versions": {"farm": __version__, "av": av.__version__, "cv2": cv2.__version__, "numpy": np.__version__},
    }
    _truth(describe, periods, clicks, shown).save(truth)
    return Sample(plate, truth)


def _check(size: tuple[int, int], people: int, seconds: float | Fraction, fps: Fraction) -> None:
    if min(size) < 64 or size[0] % 2 or size[1] % 2:
        raise InputError(
            f"A plate of {size[0]}×{size[1]} cannot be made.", where="size", do="Give even numbers from 64."
        )
    if not 1 <= people <= len(IDENTITIES):
        raise InputError(f"There are no {people} people.", where="people", do=f"Ask for 1 to {len(IDENTITIES)}.")
    if seconds * fps < 1:
        raise InputError("A plate needs at least one frame.", where="seconds", do="Make it longer.")


def _schedule(periods: int, vfr: bool) -> list[int]:
    """The periods of 1 / fps at which a frame begins; with `vfr` every sixth period has no frame of its own."""
    return [period for period in range(periods) if not (vfr and period % 6 == 5)]


def _truth(scene: dict[str, Any], pts: list[int], clicks: list[int], shown: list[list[Seen]]) -> Truth:
    kinds = {"visible": np.bool_}
    arrays: dict[str, Any] = {
        item.name: np.array([[getattr(seen, item.name) for seen in frame] for frame in shown]).astype(
            kinds.get(item.name, np.float32)
        )
        for item in fields(Seen)
    }
    return Truth(scene=scene, pts=np.array(pts, np.int64), clicks=np.array(clicks, np.int64), **arrays)
