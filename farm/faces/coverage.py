"""What a bank shows of its person, and what it does not: the poses and expressions that a performer should add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.bank import Bank
from farm.faces.expression import column

_TILE = 128
_ACROSS = 8


@dataclass(frozen=True, slots=True)
class Covered:
    """One pose or expression, and how many frames of the bank show it."""

    name: str
    frames: int


Column = NDArray[np.float32]
Says = Callable[[Callable[[str], Column]], NDArray[np.bool_]]
"""Which frames show something, told by their traits by name."""


def _pair(of: Callable[[str], Column], name: str) -> Column:
    return np.asarray((of(f"{name}Left") + of(f"{name}Right")) / 2, np.float32)


_POSES: dict[str, Says] = {
    "frontal": lambda of: (np.abs(of("yaw")) < 12) & (np.abs(of("pitch")) < 10),
    "turned to the picture's left": lambda of: of("yaw") < -18,
    "turned to the picture's right": lambda of: of("yaw") > 18,
    "far to the picture's left": lambda of: of("yaw") < -35,
    "far to the picture's right": lambda of: of("yaw") > 35,
    "head up": lambda of: of("pitch") < -10,
    "head down": lambda of: of("pitch") > 10,
}
_EXPRESSIONS: dict[str, Says] = {
    "mouth shut, at rest": lambda of: (of("jawOpen") < 0.05) & (_pair(of, "mouthSmile") < 0.3),
    "mouth half open": lambda of: (of("jawOpen") > 0.1) & (of("jawOpen") < 0.4),
    "mouth wide open": lambda of: of("jawOpen") >= 0.4,
    "smile": lambda of: _pair(of, "mouthSmile") > 0.5,
    "lips pursed": lambda of: of("mouthPucker") > 0.5,
    "eyes shut": lambda of: _pair(of, "eyeBlink") > 0.5,
    "brows raised": lambda of: of("browInnerUp") > 0.4,
    "brows lowered": lambda of: _pair(of, "browDown") > 0.3,
    "eyes to the picture's left": lambda of: of("gazeAcross") < -0.2,
    "eyes to the picture's right": lambda of: of("gazeAcross") > 0.2,
}


def coverage(bank: Bank) -> tuple[Covered, ...]:
    """Every pose and expression that is looked for, in order, with the frames that show it."""

    def of(name: str) -> Column:
        return np.asarray(bank.traits[:, column(name)])

    return tuple(Covered(name, int(says(of).sum())) for name, says in {**_POSES, **_EXPRESSIONS}.items())


def missing(bank: Bank) -> tuple[str, ...]:
    """Names of the poses and expressions that no frame shows."""
    return tuple(found.name for found in coverage(bank) if found.frames == 0)


def sheet(bank: Bank) -> bytes:
    """The bank's unrolled faces side by side, as PNG."""
    tiles = [cv2.resize(detail, (_TILE, _TILE), interpolation=cv2.INTER_AREA)[:, :, ::-1] for detail in bank.details]
    tiles += [np.zeros((_TILE, _TILE, 3), np.uint8)] * (-len(tiles) % _ACROSS)
    rows = [np.hstack(tiles[at : at + _ACROSS]) for at in range(0, len(tiles), _ACROSS)]
    return bytes(cv2.imencode(".png", np.vstack(rows))[1].tobytes())
