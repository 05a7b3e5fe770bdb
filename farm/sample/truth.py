"""The ground truth of a sample plate: what every frame shows, known because it was drawn from it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Truth:
    """Per frame f and person p; people in the order of `identities`.

    Attributes
    ----------
    scene: the plate's description: seed, size, fps, codec, identities, versions, what the angles mean.
    pts: int64 [f], ticks of `time_base`.
    clicks: int64 [n], the frames at whose first instant a click sounds.
    visible: bool [f, p], at least half of the face is in the picture and nobody is in front of it.
    occluded: float32 [f, p], share of the face (of what lies in the picture) that another person covers.
    inside: float32 [f, p], share of the face's outline that lies in the picture.
    pose: float32 [f, p, 3], yaw, pitch, roll in degrees, 0 being the portrait's own pose (`farm.sample.bust.Pose`).
    landmarks: float32 [f, p, 478, 2], pixels of the picture; x right, y down; a pixel's middle is a whole number.
    box: float32 [f, p, 4], x0, y0, x1, y1 around the landmarks, not cut at the picture's border.
    lids, jaw, gaze: float32 [f, p]: 0 open … 1 closed, 0 shut … 1 wide, -1 left … 1 right.
    """

    scene: dict[str, Any]
    pts: NDArray[np.int64]
    clicks: NDArray[np.int64]
    visible: NDArray[np.bool_]
    occluded: NDArray[np.float32]
    inside: NDArray[np.float32]
    pose: NDArray[np.float32]
    landmarks: NDArray[np.float32]
    box: NDArray[np.float32]
    lids: NDArray[np.float32]
    jaw: NDArray[np.float32]
    gaze: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(self.scene["identities"])

    @property
    def time_base(self) -> Fraction:
        return Fraction(self.scene["time_base"])

    def person(self, identity: str) -> int:
        """The column of `identity`; InputError where this plate does not show it."""
        if identity not in self.identities:
            raise InputError(
                f"This plate does not show {identity!r}.", where="truth", do=f"It shows: {', '.join(self.identities)}."
            )
        return self.identities.index(identity)

    def save(self, path: Path) -> None:
        """Write one compressed .npz without pickles."""
        arrays = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "scene"}
        scene = np.frombuffer(json.dumps(self.scene, sort_keys=True).encode(), np.uint8)
        with path.open("wb") as out:
            np.savez_compressed(out, version=np.int64(_VERSION), scene=scene, **arrays)

    @classmethod
    def load(cls, path: Path) -> Truth:
        """Read what `save` wrote; InputError where the file is something else."""
        try:
            with np.load(path, allow_pickle=False) as z:
                if int(z["version"]) != _VERSION:
                    raise InputError("The truth was written by another version.", where=path.name, do="Generate again.")
                arrays = {item.name: z[item.name] for item in fields(cls) if item.name != "scene"}
                return cls(scene=json.loads(z["scene"].tobytes().decode()), **arrays)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                "This is not the truth of a sample plate.", where=path.name, do="Give the file that lies beside it."
            ) from error
