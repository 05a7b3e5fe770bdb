"""Writes one chunk: the pictures of frames [first, last), encoded as the plan says, with the plate's own clock.

A chunk file holds one video stream. Its time stamps are ticks of the plate's time base, counted from the chunk's first
frame (NUT refuses negative ones, and MP4 has a first dts of 0 before it); `ChunkFacts` has the absolute ones. The
encoder itself only counts frames.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import av
import av.error
import numpy as np
from av.codec.context import ThreadType
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from farm.errors import DiskFullError, FarmError, InfrastructureError, RecipeError, is_disk_full
from farm.media.card_picture import CardPicture, handed_over, through_memory
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts, Rational
from farm.media.frame import Frame, Plane
from farm.media.look import look_of
from farm.media.names import FIELD_ORDERS
from farm.media.picture import Mask, PictureMaker
from farm.media.planes import to_planes
from farm.media.scheduling import as_it_was
from farm.media.timecode import label_of, start_timecode
from farm.media.timeline import Timeline
from farm.words import counted

_BLOCK = 1 << 20
_MOST_REORDER = 64
_BOXED = ("mp4", "mov")


class ChunkFacts(BaseModel):
    """What a chunk file holds; the merger checks the file against it.

    `first_pts` and `last_pts` are the plate's ticks of the first and last frame. `reorder` is how many packets the
    encoder's decoding order runs ahead of the presentation order. `frames_sha256` is, for lossless deliverables, the
    sha256 of all samples as they went into the encoder. `looks` are those (see `farm.media.look`) of the first and the
    last picture as they went into the encoder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: int
    last: int
    frames: int
    first_pts: int
    last_pts: int
    time_base: Rational
    plan_digest: str
    encoder: str
    sample_format: str
    width: int
    height: int
    reorder: int
    extradata_sha256: str
    size: int
    sha256: str
    frames_sha256: str | None = None
    looks: tuple[str, str] | None = None
    concealed: tuple[int, ...] = ()


def file_sha256(path: Path) -> str:
    """Lower-case hex sha256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def hash_planes(digest: Any, planes: tuple[Plane, ...]) -> None:
    """Add a picture's samples, row by row without line padding, to a hash."""
    for plane in planes:
        digest.update(np.ascontiguousarray(plane).data)


class ChunkWriter:
    """Encodes frames [first, last) into `path`, in order; use as a context manager.

    `write` takes each frame once; `close` finishes the file and gives its facts. Leaving the block by an exception
    removes the file. Memory does not grow with the chunk's length, but for the encoder's own look-ahead.

    on_card: frames come with their pictures on a card, for encoders that take them there. Where that fails with the
    first frame they go through memory; `way` says which way they went and why, for the attempt's record.
    """

    def __init__(
        self,
        path: Path,
        plan: EncoderPlan,
        facts: PlateFacts,
        timeline: Timeline,
        first: int,
        last: int,
        *,
        on_card: bool = False,
    ) -> None:
        if not 0 <= first < last <= len(timeline):
            raise RecipeError(
                f"Frames {first} to {last} are not in the timeline of {counted(len(timeline), 'frame')}.",
                where="chunk",
                do="",
            )
        self._path = path
        self._plan = plan
        self._timeline = timeline
        self._first, self._last = first, last
        self._maker = PictureMaker(plan)
        self._delay = _longest(timeline.pts[first:last], _MOST_REORDER)
        self._timecode = start_timecode(facts.metadata, *(s.metadata for s in facts.streams))
        self._next = first
        self._packets = 0
        self._reorder = 0
        self._concealed: list[int] = []
        self._looks: list[str] = []
        self._samples = hashlib.sha256() if plan.lossless else None
        self._facts: ChunkFacts | None = None
        self._output: Any = None
        why = through_memory(plan) if on_card else "frames are not worked on by the card"
        self._direct, self.way = not why, f"through memory: {why}" if why else "on the card, by DLPack"
        self._open()

    def _open(self) -> None:
        plan = self._plan
        try:
            options = {"avoid_negative_ts": "disabled"}
            if plan.chunk_container in _BOXED:
                options["video_track_timescale"] = str(self._timeline.time_base.denominator)
            if plan.chunk_container == "mp4":
                options["use_editlist"] = "0"
            self._output = av.open(str(self._path), "w", format=plan.chunk_container, options=options)
            self._stream: Any = self._output.add_stream(plan.encoder, rate=plan.rate, options=dict(plan.options))
            context = self._stream.codec_context
            context.width, context.height, context.pix_fmt = plan.width, plan.height, plan.sample_format
            context.time_base, context.framerate = 1 / plan.rate, plan.rate
            context.sample_aspect_ratio = plan.sample_aspect_ratio
            context.field_order = next((n for n, name in FIELD_ORDERS.items() if name == plan.field_order), 0)
            # PyAV asks for threads within a picture only: x264 then cuts each into slices, which costs bits and time.
            context.thread_type = ThreadType.AUTO
            self._stream.time_base = self._timeline.time_base
            if not self._direct:
                # Else it is opened with the first picture, which tells the memory that it lies in.
                with as_it_was():
                    context.open()
        except (av.error.FFmpegError, ValueError, OSError) as error:
            self._abandon()
            raise _refused(plan, error) from error

    def write(self, frame: Frame, mask: Mask | None = None, picture_there: CardPicture | None = None) -> None:
        """Encode the next frame; `mask` (uint8, 0..255, of the frame's size) where the plan is of a matte or a face.

        picture_there: the frame on the card, where the writer was told of one.
        """
        if frame.index != self._next or frame.index >= self._last:
            raise RecipeError(
                f"Frame {frame.index} came where frame {self._next} of [{self._first}, {self._last}) was due.",
                where="chunk writer",
                do="Give the frames of the chunk once each, in order.",
            )
        if frame.pts != int(self._timeline.pts[frame.index]):
            raise RecipeError(
                f"Frame {frame.index} has pts {frame.pts}, the timeline says {int(self._timeline.pts[frame.index])}.",
                where="chunk writer",
                do="Plan the job again by a full decode.",
            )
        label = label_of(frame, self._timeline, self._timecode, self._plan.rate) if self._plan.burn_in else ""
        picture = self._maker.make(frame, mask=mask, label=label)
        if self._samples is not None:
            hash_planes(self._samples, to_planes(picture)[0] if self._plan.filters else frame.planes)
        if frame.index in (self._first, self._last - 1):
            planes, made = to_planes(picture)
            self._looks.append(look_of(planes[0], made.name))
        if frame.concealed:
            self._concealed.append(frame.index)
        self._next += 1
        if self._direct and picture_there is not None and self._handed(picture_there, frame.index):
            return
        self._encode(self._timed(picture, frame.index))

    def _timed(self, picture: av.VideoFrame, index: int) -> av.VideoFrame:
        picture.pts, picture.time_base = index - self._first, 1 / self._plan.rate
        return picture

    def _handed(self, picture: CardPicture, index: int) -> bool:
        """Encode a picture where it lies; False where the first is refused: then all go through memory."""
        try:
            given = self._timed(handed_over(picture, self._plan), index)
            context = self._stream.codec_context
            if index == self._first:
                context.pix_fmt = given.format.name
            packets = context.encode(given)
        except (av.error.FFmpegError, ValueError, TypeError) as error:
            if index != self._first:
                raise _refused(self._plan, error) from error
            self._direct, self.way = False, f"through memory: the card's encoder refused the first picture ({error})"
            self._abandon()
            self._open()
            return False
        for packet in packets:
            self._mux(packet)
        return True

    def _encode(self, picture: av.VideoFrame | None) -> None:
        try:
            for packet in self._stream.codec_context.encode(picture):
                self._mux(packet)
        except (av.error.FFmpegError, ValueError) as error:
            raise _refused(self._plan, error) from error

    def _mux(self, packet: Any) -> None:
        index = packet.pts
        if index is None or not 0 <= index < self._last - self._first:
            raise _refused(self._plan, ValueError(f"the encoder gave a packet for frame {index}"))
        if self._packets == 0 and not packet.is_keyframe:
            raise _refused(self._plan, ValueError("the first packet is no key frame"))
        pts, base = self._timeline.pts, int(self._timeline.pts[self._first])
        self._reorder = max(self._reorder, self._packets - index)
        packet.pts = int(pts[self._first + index]) - base
        packet.dts = packet.pts
        # Any increasing dts under pts will do: the merger makes the real ones. MP4 keeps what lies between the two.
        if self._plan.chunk_container == "nut":
            packet.dts = self._packets - _MOST_REORDER
        elif self._plan.chunk_container == "mp4":
            packet.dts = int(pts[self._first + self._packets]) - base
            packet.pts += self._delay
        packet.duration = int(self._timeline.duration[self._first + index])
        packet.time_base = self._timeline.time_base
        packet.stream = self._stream
        self._packets += 1
        self._output.mux_one(packet)

    def close(self) -> ChunkFacts:
        """Finish the file; its facts. RecipeError where frames are missing."""
        if self._facts is not None:
            return self._facts
        if self._next != self._last:
            raise RecipeError(
                f"The chunk ends at frame {self._next - 1}, frames to {self._last - 1} were due.", where="chunk writer"
            )
        self._encode(None)
        frames = self._last - self._first
        if self._packets != frames:
            raise _refused(
                self._plan, ValueError(f"{counted(self._packets, 'packet')} came out for {counted(frames, 'frame')}")
            )
        extradata = bytes(self._stream.codec_context.extradata or b"")
        try:
            self._output.close()
            if self._plan.chunk_container == "mp4":
                extradata = _extradata_in(self._path)
        except (av.error.FFmpegError, OSError) as error:
            raise _refused(self._plan, error) from error
        self._output = None
        self._facts = self._facts_of(frames, extradata)
        return self._facts

    def _facts_of(self, frames: int, extradata: bytes) -> ChunkFacts:
        plan, timeline = self._plan, self._timeline
        return ChunkFacts(
            first=self._first,
            last=self._last,
            frames=frames,
            first_pts=int(timeline.pts[self._first]),
            last_pts=int(timeline.pts[self._last - 1]),
            time_base=timeline.time_base,
            plan_digest=plan.digest(),
            encoder=plan.encoder,
            sample_format=plan.sample_format,
            width=plan.width,
            height=plan.height,
            reorder=self._reorder,
            extradata_sha256=hashlib.sha256(extradata).hexdigest(),
            size=self._path.stat().st_size,
            sha256=file_sha256(self._path),
            frames_sha256=self._samples.hexdigest() if self._samples is not None else None,
            looks=(self._looks[0], self._looks[-1]),
            concealed=tuple(self._concealed),
        )

    def _abandon(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            with contextlib.suppress(av.error.FFmpegError, OSError):
                output.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None or self._facts is None:
            self._abandon()


def _longest(pts: NDArray[np.int64], frames: int) -> int:
    """The most ticks that so many frames take, or all where there are fewer."""
    frames = min(frames, len(pts) - 1)
    return int((pts[frames:] - pts[: len(pts) - frames]).max())


def _extradata_in(path: Path) -> bytes:
    """What the file has to set up a decoder: MP4 has it in another form than the encoder."""
    with av.open(str(path), "r", format="mp4", options={"codec_whitelist": "none"}) as container:
        return bytes(container.streams.video[0].codec_context.extradata or b"")


def _refused(plan: EncoderPlan, error: Exception) -> FarmError:
    """The farm's error for an encoder or muxer that failed: a disk or device that may do better later, or the plan."""
    where = f"encoder {plan.encoder}, deliverable {plan.deliverable}"
    reason = str(error).rsplit("last error log: ", 1)[-1]
    if is_disk_full(error):
        return DiskFullError("The disk is full.", where=where, do="Free space in the scratch folder.")
    if plan.hardware:
        return InfrastructureError(
            f"The hardware encoder failed: {reason}.", where=where, do="Try again, or plan the job without hardware."
        )
    return RecipeError(f"The encoder failed: {reason}.", where=where, do="Choose another deliverable for this plate.")
