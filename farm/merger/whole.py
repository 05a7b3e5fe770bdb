"""One encode of the whole film from its mezzanine chunks, in two passes, to a file that is not larger than wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av.error

from farm.errors import RecipeError
from farm.media.container import open_container
from farm.media.encoders import EncoderPlan, why_not_here
from farm.media.frame import Frame
from farm.media.planes import to_planes
from farm.media.timeline import Timeline
from farm.media.writer import ChunkWriter, hash_planes
from farm.merger.carry import Way
from farm.merger.film import Film
from farm.merger.join import ChunkFile, damaged, open_chunk
from farm.words import counted

Progress = Callable[[int, str], None]
"""Is told how many frames of a pass are done, and in which; may raise to stop."""

_LEAST_BITS = 16_000
_HEAD_BYTES = 16_384
_FRAME_BYTES, _PACKET_BYTES = 20, 16
"""What MP4's tables take for each frame and each packet of another track, at most."""


def bits_for(film: Film, max_bytes: int) -> int:
    """Bits a second that the picture may take beside all else in the file. RecipeError where too few are left."""
    seconds = film.timeline.seconds(0, len(film.timeline))
    other = _HEAD_BYTES + _FRAME_BYTES * len(film.timeline) + _track_bytes(film)
    bits = int((max_bytes - other) * 8 / seconds)
    if bits < _LEAST_BITS:
        raise RecipeError(
            f"{max_bytes:,} bytes are too few for {seconds:.1f} s: sound and tables alone take {other:,}.",
            where=f"deliverable {film.plan.deliverable}",
            do="Allow a larger file, or ask for a part of the film.",
        )
    return bits


def _track_bytes(film: Film) -> int:
    wanted = [item.index for item in film.carried if item.way is not Way.LEAVE_OUT]
    with open_container(film.plate) as container:
        streams = [container.streams[index] for index in wanted if container.streams[index].type != "attachment"]
        return sum(p.size + _PACKET_BYTES for p in container.demux(streams) if p.size) if streams else 0


def final_here(finals: Sequence[EncoderPlan]) -> EncoderPlan:
    """The first way of encoding the whole that works on this machine: a card's has to be proved."""
    return next(plan for plan in finals if not plan.hardware or why_not_here(plan) is None)


class WholeEncode:
    """Encodes the chunks of `film` as `final` says as one stream, again where it came out too large.

    `folder` takes the statistics of the first pass; memory: a few frames.
    """

    def __init__(self, film: Film, final: EncoderPlan, chunks: Sequence[ChunkFile], folder: Path) -> None:
        self._film, self._final, self._chunks = film, final, chunks
        self._stats = folder / "passes.log"
        self._path = folder / f"whole{final.chunk_suffix}"
        self._analysed = False

    def run(self, bits: int, progress: Progress) -> tuple[ChunkFile, EncoderPlan]:
        """The picture at `bits` a second as one chunk, and the plan that it was encoded by."""
        if self._final.hardware:
            return self._encode(self._planned(bits), progress, "encoding the whole")
        if not self._analysed:
            self._encode(self._planned(bits, 1), progress, "encoding the whole, first pass")
            self._analysed = True
        return self._encode(self._planned(bits, 2), progress, "encoding the whole, second pass")

    def _planned(self, bits: int, number: int = 0) -> EncoderPlan:
        options = self._final.options | {"b": str(bits)}
        if number:
            options |= {"flags": options.get("flags", "") + f"+pass{number}", "stats": str(self._stats)}
        return self._final.model_copy(update={"options": options})

    def _encode(self, plan: EncoderPlan, progress: Progress, note: str) -> tuple[ChunkFile, EncoderPlan]:
        film, frames = self._film, len(self._film.timeline)
        with ChunkWriter(self._path, plan, film.facts, film.timeline, 0, frames) as writer:
            for frame in mezzanine_frames(self._chunks, film.timeline, plan):
                writer.write(frame)
                progress(frame.index + 1, note)
            made = writer.close()
            return ChunkFile(self._path, made, made.sha256), plan


def mezzanine_frames(chunks: Sequence[ChunkFile], timeline: Timeline, plan: EncoderPlan) -> Iterator[Frame]:
    """Every frame of lossless chunks, in order. FarmError names the chunk that does not give what it should."""
    for chunk in chunks:
        facts, index = chunk.facts, chunk.facts.first
        concealed, samples = frozenset(facts.concealed), hashlib.sha256()
        with open_chunk(chunk, header_only=False) as (container, stream):
            ticks = Fraction(stream.time_base) / timeline.time_base
            try:
                for picture in container.decode(stream):
                    pts = facts.first_pts + picture.pts * ticks
                    if index >= facts.last or pts != int(timeline.pts[index]):
                        raise damaged(facts, f"A frame has pts {pts} where frame {index} was due.")
                    planes, made = to_planes(picture)
                    hash_planes(samples, planes)
                    yield Frame(planes, made, plan.colour, int(pts), index, concealed=index in concealed)
                    index += 1
            except av.error.FFmpegError as error:
                raise damaged(facts, f"The chunk's file cannot be decoded: {type(error).__name__}.") from error
        if index != facts.last:
            raise damaged(facts, f"{counted(facts.last - index, 'frame')} missing.")
        if samples.hexdigest() != facts.frames_sha256:
            raise damaged(facts, "Its samples are not those that were rendered.")
