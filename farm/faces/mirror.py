"""Plates that are shown mirrored: their frames are flipped before faces are looked for, and back afterwards.

A face whose picture is stored mirrored is no face by its geometry: right and left eye have changed places.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from farm.faces.report import FrameReport
from farm.media.facts import PlateFacts
from farm.media.frame import Frame, Plane


def is_mirrored(facts: PlateFacts) -> bool:
    """Whether the display matrix turns the picture over."""
    matrix = facts.video.display_matrix
    return matrix is not None and matrix[0] * matrix[4] - matrix[1] * matrix[3] < 0


def straight_facts(facts: PlateFacts) -> PlateFacts:
    """The facts of the flipped frames: the display matrix without the mirror. Chroma counts as centred, which is half
    a sample off in the face at most and the same both ways.
    """
    if not is_mirrored(facts) or facts.video.display_matrix is None:
        return facts
    a, b, u, c, d, *rest = facts.video.display_matrix
    colour = facts.video.colour.model_copy(update={"chroma_location": "center"})
    video = facts.video.model_copy(update={"display_matrix": (-a, -b, u, c, d, *rest), "colour": colour})
    return facts.model_copy(update={"video": video})


def flipped(frame: Frame, facts: PlateFacts) -> Frame:
    """A copy with right and left exchanged, read by the colours of `facts`."""
    planes: tuple[Plane, ...] = tuple(np.ascontiguousarray(plane[:, ::-1]) for plane in frame.planes)  # type: ignore[misc]
    return replace(frame, planes=planes, colour=facts.video.colour)


def flipped_report(report: FrameReport, width: int) -> FrameReport:
    """The report with its boxes where they are in the frame as it is stored."""
    faces = tuple(
        face.model_copy(update={"box": (width - face.box[2], face.box[1], width - face.box[0], face.box[3])})
        for face in report.faces
    )
    return report.model_copy(update={"faces": faces})
