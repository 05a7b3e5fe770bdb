"""One job on one plate, in this process: cast, mapping and the render of any range, as a worker does it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farm.faces.candidate import PictureBytes
from farm.faces.cast import Cast, build_cast, observe
from farm.faces.footage import ClipFile
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.likeness import fitted, sitters
from farm.faces.mapping import Mapping as CastMapping
from farm.faces.mapping import MappingMode, MappingRequest, resolve
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.views import Analyst
from farm.inference.session import Models
from farm.media.colour import upright_preview
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import scan_timeline
from farm.media.timeline import Timeline
from farm.media.writer import hash_planes
from farm.recipe import preset
from farm.sample import portrait_picture

_CAST_EVERY = 12
_THREADS = 2


@dataclass(frozen=True, slots=True)
class FaceJob:
    """A plate, who is in it, and who becomes whom.

    `members`: cast member id by the name under which `wanted` asked for the person.
    """

    path: Path
    facts: PlateFacts
    timeline: Timeline
    cast: Cast
    mapping: CastMapping
    members: dict[str, str]
    identities: dict[str, PreparedIdentity]
    models: Models

    @property
    def size(self) -> tuple[int, int]:
        return self.facts.video.width, self.facts.video.height

    def plate(self) -> Iterator[Frame]:
        """The untouched frames."""
        return read_plate(self.path, self.facts, self.timeline)

    def render(self, first: int = 0, last: int | None = None) -> Iterator[Rendered]:
        """Frames [first, last), rendered by a pipeline of their own, as a chunk is."""
        end = len(self.timeline) if last is None else last
        pipeline = FacePipeline(
            preset("swap"), self.mapping, self.identities, self.models, self.facts, threads=_THREADS
        )
        before, after = pipeline.context
        low, high = max(first - before, 0), min(end + after, len(self.timeline))
        return pipeline.process(_within(self.plate(), low, high), first, end)

    def digests(self, chunks: int, last: int | None = None) -> list[str]:
        """sha256 of every rendered frame (up to `last`), rendered as `chunks` chunks of about equal length."""
        bounds = np.linspace(0, last or len(self.timeline), chunks + 1).astype(int)
        return [
            digest_of(rendered.frame)
            for first, last in pairwise(bounds)
            for rendered in self.render(int(first), int(last))
        ]

    def bgr(self, frame: Frame) -> NDArray[np.uint8]:
        """The whole frame as BGR uint8."""
        picture, _ = upright_preview(frame, self.facts, max(self.size))
        return picture


def open_job(
    path: Path, models: Models, wanted: Mapping[str, str], *, made: Mapping[str, PreparedIdentity] | None = None
) -> FaceJob:
    """Cast the plate and decide the mapping.

    `wanted`: name of the person to be put in, by portrait name of the person in the plate, or by "lead". A name is a
    portrait's, or one of the identities `made` already.
    """
    facts = probe(path)
    timeline = scan_timeline(path, facts)
    analyst = Analyst(models, facts)
    seen = [
        face
        for frame in read_plate(path, facts, timeline)
        if frame.index % _CAST_EVERY == 0
        for face in observe(frame, analyst, seconds=_CAST_EVERY * timeline.seconds(0, len(timeline)) / len(timeline))
    ]
    cast = build_cast(seen, frames_seen=-(-len(timeline) // _CAST_EVERY))
    ready = made or {}
    identities = {name: ready[name] if name in ready else _identity(name, models) for name in wanted.values()}
    members = {name: _member(cast, name, models) for name in wanted}
    request = MappingRequest(mode=MappingMode.CAST, assignments={members[name]: wanted[name] for name in wanted})
    return FaceJob(path, facts, timeline, cast, resolve(request, cast, identities), members, identities, models)


def _identity(name: str, models: Models) -> PreparedIdentity:
    prepared = prepare_identity([PictureBytes(portrait_picture(name).read_bytes(), name)], models)
    return fitted(prepared, sitters(models), models)


def footage_identity(clip: Path, models: Models) -> PreparedIdentity:
    """The one person whom a clip shows, as a bank of frames."""
    return fitted(prepare_identity([], models, clips=[ClipFile(clip, clip.stem)]), sitters(models), models)


def _member(cast: Cast, name: str, models: Models) -> str:
    """The cast member that looks like portrait `name`; the lead for "lead"."""
    if name == "lead":
        return cast.members[0].id
    portrait = _identity(name, models).embedding
    return max(cast.members, key=lambda member: float(member.embedding @ portrait)).id


def _within(frames: Iterator[Frame], low: int, high: int) -> Iterator[Frame]:
    for frame in frames:
        if frame.index >= high:
            return
        if frame.index >= low:
            yield frame


def digest_of(frame: Frame) -> str:
    """sha256 of a frame's samples."""
    digest = hashlib.sha256()
    hash_planes(digest, frame.planes)
    return digest.hexdigest()
