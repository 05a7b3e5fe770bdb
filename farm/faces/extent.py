"""Where and when faces are changed: stretches of time, parts of the picture, or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import cv2
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from farm.faces.report import Outcome

Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
Point = tuple[Coordinate, Coordinate]
"""x, y in pixels of the plate as it is shown."""

_CORNERS = 3


class Extent(BaseModel):
    """A part of the plate: between two times, inside a rectangle or polygon, or both.

    Attributes
    ----------
    start, end: seconds from the plate's first frame, half open; `end` None: to the end of the plate.
    box: x0, y0, x1, y1, half open; polygon: three corners or more. Pixels of the plate as it is shown: upright, square
        pixels, at its full size, 0, 0 at the upper left. Neither: the whole picture.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: float = Field(default=0.0, ge=0)
    end: float | None = Field(default=None, gt=0)
    box: tuple[Coordinate, Coordinate, Coordinate, Coordinate] | None = None
    polygon: tuple[Point, ...] | None = Field(default=None, min_length=_CORNERS, max_length=256)

    @model_validator(mode="after")
    def _is_a_part(self) -> Extent:
        if self.end is not None and self.end <= self.start:
            raise ValueError("a time range ends after it starts")
        if self.box is not None and self.polygon is not None:
            raise ValueError("a region is a box or a polygon, not both")
        if self.box is not None and (self.box[2] <= self.box[0] or self.box[3] <= self.box[1]):
            raise ValueError("a box is x0, y0, x1, y1 with its upper left corner first")
        return self

    @property
    def whole_picture(self) -> bool:
        return self.box is None and self.polygon is None

    def lasts(self, seconds: float) -> bool:
        return self.start <= seconds and (self.end is None or seconds < self.end)

    def holds(self, point: Point) -> bool:
        """Whether the point lies inside the region, its edge included for polygons."""
        x, y = point
        if self.box is not None:
            return self.box[0] <= x < self.box[2] and self.box[1] <= y < self.box[3]
        if self.polygon is not None:
            return cv2.pointPolygonTest(np.array(self.polygon, np.float32), (float(x), float(y)), False) >= 0
        return True


def refusal(include: Sequence[Extent], exclude: Sequence[Extent], seconds: float, point: Point) -> Outcome | None:
    """Why a face whose middle is at `point` stays as it is at `seconds`; None where it is changed.

    One of `exclude` that holds the face is enough to keep it; where there are any in `include`, one must hold it.
    """
    for extent in exclude:
        if extent.lasts(seconds) and extent.holds(point):
            return Outcome.OUT_OF_TIME if extent.whole_picture else Outcome.OUT_OF_REGION
    now = [extent for extent in include if extent.lasts(seconds)]
    if not include or any(extent.holds(point) for extent in now):
        return None
    return Outcome.OUT_OF_REGION if now else Outcome.OUT_OF_TIME
