"""A cast as a person looks at it: a contact sheet, and the same in plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.member import Appearance, Cast, CastMember
from farm.faces.report import time_code
from farm.words import counted

Seconds = Callable[[int], float]
"""Seconds after the plate's first frame of a pts."""

_SIDE, _SMALL, _GAP = 160, 72, 12
_IN_A_ROW = 12
_TEXT = 300
_PAPER, _INK, _QUIET = (250, 250, 250), (30, 30, 30), (110, 110, 110)
_WIDTH = 3 * _GAP + _SIDE + _TEXT + _IN_A_ROW * (_SMALL + _GAP // 2)

Picture = NDArray[np.uint8]


def describe_members(cast: Cast, seconds: Seconds) -> list[dict[str, Any]]:
    """The members as JSON, by falling screen time: times in seconds and as time codes, and their appearances."""
    return [
        {
            "id": member.id,
            **_times(member, seconds),
            "appearances": [{"number": part.number, **_times(part, seconds)} for part in member.appearances],
        }
        for member in cast.members
    ]


def contact_sheet(cast: Cast, seconds: Seconds) -> bytes:
    """A PNG: a row for each member, the best picture, id and times, then the appearances with their numbers."""
    rows = [_row(member, seconds) for member in cast.members]
    if not rows:
        empty = np.full((_SIDE, _WIDTH, 3), _PAPER, np.uint8)
        _write(empty, f"No face was found in {counted(cast.frames_seen, 'frame')}.", (_GAP, _SIDE // 2))
        rows = [empty]
    _, png = cv2.imencode(".png", np.vstack(rows))
    return png.tobytes()


def _times(shown: CastMember | Appearance, seconds: Seconds) -> dict[str, Any]:
    first, last = seconds(shown.first_pts), seconds(shown.last_pts)
    return {
        "screen_seconds": round(shown.screen_seconds, 3),
        "first_seconds": round(first, 3),
        "last_seconds": round(last, 3),
        "first": time_code(first),
        "last": time_code(last),
        "sightings": shown.sightings,
    }


def _row(member: CastMember, seconds: Seconds) -> Picture:
    lines = -(-len(member.appearances) // _IN_A_ROW)
    height = max(_SIDE + 2 * _GAP, 2 * _GAP + lines * (_SMALL + 20))
    row = np.full((height, _WIDTH, 3), _PAPER, np.uint8)
    row[-1] = _QUIET
    _lay(row, member.thumbnail, (_GAP, _GAP), _SIDE)
    left = 2 * _GAP + _SIDE
    times = _times(member, seconds)
    _write(row, member.id, (left, 40), scale=0.7)
    _write(row, f"{times['screen_seconds']:.1f} s on screen", (left, 72), colour=_QUIET)
    _write(row, f"{times['first']} to {times['last']}", (left, 96), colour=_QUIET)
    _write(row, f"{member.sightings} sightings", (left, 120), colour=_QUIET)
    for place, part in enumerate(member.appearances):
        line, column = divmod(place, _IN_A_ROW)
        x, y = left + _TEXT + column * (_SMALL + _GAP // 2), _GAP + line * (_SMALL + 20)
        _lay(row, part.thumbnail, (x, y), _SMALL)
        _write(row, str(part.number), (x, y + _SMALL + 14), scale=0.42, colour=_QUIET)
    return row


def _lay(row: Picture, jpeg: bytes, at: tuple[int, int], side: int) -> None:
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    if picture is not None:
        x, y = at
        row[y : y + side, x : x + side] = cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA)


def _write(
    row: Picture, words: str, at: tuple[int, int], *, scale: float = 0.5, colour: tuple[int, int, int] = _INK
) -> None:
    cv2.putText(row, words, at, cv2.FONT_HERSHEY_SIMPLEX, scale, colour, 1, cv2.LINE_AA)
