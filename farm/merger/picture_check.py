"""The picture half of verification: each decoded frame against timeline, plan and what the chunk writer noted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from farm.media.encoders import EncoderPlan
from farm.media.look import alike, look_of
from farm.media.planes import to_planes
from farm.media.samples import make_of
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts, hash_planes
from farm.merger.clock import rescaled
from farm.merger.report import Findings


class PictureCheck:
    """Takes the decoded frames of some chunks that follow each other, in presentation order. Memory: one frame.

    `frames` counts them, `looks` has the looks of those at seams, `worst` is a time stamp's worst error in seconds.
    """

    def __init__(
        self,
        timeline: Timeline,
        plan: EncoderPlan,
        chunks: Sequence[ChunkFacts],
        shift: Fraction,
        findings: Findings,
    ) -> None:
        self._timeline, self._plan, self._chunks = timeline, plan, chunks
        self._shift, self._findings = shift, findings
        self._looks = _looks_at_seams(chunks)
        self._first, self._end = chunks[0].first, chunks[-1].last
        self._chunk = 0
        self._samples = hashlib.sha256()
        self._last: int | None = None
        self._make = make_of(plan.sample_format)
        self.looks: dict[int, str] = {}
        self.frames = 0
        self.lossless_chunks = 0
        self.worst = Fraction(0)

    def add(self, frame: Any, time_base: Fraction) -> None:
        """Check the next frame; `time_base` is the deliverable's."""
        index = self._first + self.frames
        self.frames += 1
        if index >= self._end:
            return
        self._check_time(frame.pts, index, time_base)
        self._check_shape(frame, index)
        if index in self._looks:
            self._check_look(frame, index)
        if self._plan.lossless:
            self._check_samples(frame, index)

    def _check_time(self, pts: int | None, index: int, time_base: Fraction) -> None:
        plate_pts = int(self._timeline.pts[index])
        where = f"Frame {index} (pts {plate_pts} of the plate)"
        if pts is None:
            self._findings.add("no_pts", f"{where} has no time stamp.", index, plate_pts)
            return
        due = rescaled(1, plate_pts * self._timeline.time_base + self._shift, time_base)
        if pts != due:
            self.worst = max(self.worst, abs(pts - due) * time_base)
            self._findings.add("pts", f"{where} has pts {pts} where {due} was due.", index, plate_pts)
        if self._last is not None and pts <= self._last:
            self._findings.add("order", f"{where} does not come after the frame before it.", index, plate_pts)
        self._last = pts

    def _check_shape(self, frame: Any, index: int) -> None:
        plan = self._plan
        if (frame.width, frame.height) != (plan.width, plan.height):
            self._findings.add(
                "size", f"Frame {index} is {frame.width}×{frame.height} instead of {plan.width}×{plan.height}.", index
            )
        if index > self._first:
            return
        made = make_of(frame.format.name)
        # Some decoders give more bits than were coded (ProRes 4444: 12), none may give fewer or other chroma.
        if made.depth < self._make.depth or made._replace(depth=0) != self._make._replace(depth=0):
            self._findings.add("samples", f"The picture is {frame.format.name} instead of {plan.sample_format}.", index)

    def _check_look(self, frame: Any, index: int) -> None:
        planes, made = to_planes(frame)
        look = self.looks[index] = look_of(planes[0], made.name)
        if not alike(look, self._looks[index]):
            pts = int(self._timeline.pts[index])
            text = f"Frame {index} (pts {pts} of the plate), at a seam, is not the picture that was rendered."
            self._findings.add("seam", text, index, pts)

    def _check_samples(self, frame: Any, index: int) -> None:
        chunk = self._chunks[self._chunk]
        hash_planes(self._samples, to_planes(frame)[0])
        if index + 1 < chunk.last:
            return
        if self._samples.hexdigest() == chunk.frames_sha256:
            self.lossless_chunks += 1
        else:
            text = f"The samples of frames {chunk.first} to {chunk.last - 1} are not those that were rendered."
            self._findings.add("bits", text, chunk.first, chunk.first_pts)
        self._samples = hashlib.sha256()
        self._chunk += 1

    def finish(self) -> None:
        """Compare the count."""
        due = self._end - self._first
        if self.frames == due:
            return
        short = self.frames < due
        frame = self._first + self.frames if short else None
        pts = int(self._timeline.pts[frame]) if frame is not None else None
        part = f" from frame {self._first} on" if due < len(self._timeline) else ""
        self._findings.add("count", f"{self.frames} frames were decoded where {due} were due{part}.", frame, pts)


def _looks_at_seams(chunks: Sequence[ChunkFacts]) -> dict[int, str]:
    """The looks of each chunk's first and last frame, by frame."""
    looks: dict[int, str] = {}
    for chunk in chunks:
        if chunk.looks is not None:
            looks[chunk.first], looks[chunk.last - 1] = chunk.looks
    return looks
