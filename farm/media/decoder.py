"""Decoders that give every picture the number of the packet it came from.

Time stamps are not sent through the decoder: each packet's `pts` and `dts` are replaced by its ordinal (its place in
the stream, in decoding order), so that a picture says which packet it is, whatever its own time stamps are worth. The
plate and each segment are decoded by equal decoders, made from a DecoderSetup.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import av.error
from av import CodecContext, Packet, VideoFrame
from av.codec.context import Flags, ThreadType
from av.codec.hwaccel import HWAccel
from av.packet import PacketSideData
from av.video.codeccontext import VideoCodecContext
from pydantic import BaseModel, ConfigDict

from farm.media import limits


class DecoderSetup(BaseModel):
    """All that a decoder must be told beside the packets; plain data (JSON) that travels in each segment.

    `extradata` is base64; the colour tags and the field order are FFmpeg's numbers.
    """

    model_config = ConfigDict(frozen=True)

    codec: str
    width: int
    height: int
    sample_format: str | None
    extradata: str | None = None
    codec_tag: str | None = None
    bits_per_coded_sample: int = 0
    reorder_depth: int = 0
    profile: str | None = None
    level: int = -99
    field_order: int = 0
    primaries: int = 2
    transfer: int = 2
    matrix: int = 2
    range: int = 0

    @classmethod
    def of(cls, context: VideoCodecContext) -> DecoderSetup:
        """The set-up of an unopened or open decoder, as the demuxer filled it."""
        extradata = context.extradata
        return cls(
            codec=context.name,
            width=context.width,
            height=context.height,
            sample_format=context.pix_fmt,
            extradata=base64.b64encode(extradata).decode() if extradata else None,
            codec_tag=_codec_tag(context),
            bits_per_coded_sample=context.bits_per_coded_sample,
            reorder_depth=context.reorder_depth,
            profile=context.profile,
            level=context.level,
            field_order=context.field_order,
            primaries=context.color_primaries,
            transfer=context.color_trc,
            matrix=context.colorspace,
            range=context.color_range,
        )

    @property
    def extradata_bytes(self) -> bytes | None:
        return base64.b64decode(self.extradata) if self.extradata else None

    def open(self, *, threads: int = 0, exacting: bool = False, hardware: HWAccel | None = None) -> VideoCodecContext:
        """A fresh decoder; `threads` 0 means one a core. hardware: the card that decodes, if one does.

        `exacting`: a decoder that would keep silent about faults (`limits.SILENT`) refuses the packets that it finds
        them in. Others say what they find, but may stumble over pictures before the first that is wanted.
        """
        silent = self.codec in limits.SILENT
        context: Any = CodecContext.create(self.codec, "r", hardware)
        if self.width and self.height:
            context.width, context.height = self.width, self.height
        if self.sample_format:
            context.pix_fmt = self.sample_format
        if self.extradata:
            context.extradata = self.extradata_bytes
        if self.codec_tag:
            context.codec_tag = self.codec_tag
        context.bits_per_coded_sample = self.bits_per_coded_sample
        context.reorder_depth = self.reorder_depth
        if self.profile:
            context.profile = self.profile
        context.level = self.level
        context.field_order = self.field_order
        context.color_primaries, context.color_trc = self.primaries, self.transfer
        context.colorspace, context.color_range = self.matrix, self.range
        context.thread_type = ThreadType.AUTO
        context.thread_count = 1 if silent else threads
        # Cropping must give the stated size also where that makes rows unaligned.
        context.flags |= Flags.unaligned
        context.options = {"max_pixels": str(limits.MAX_PIXELS)}
        if exacting and silent:
            context.options |= {"err_detect": "explode"}
        return context  # type: ignore[no-any-return]


def _codec_tag(context: VideoCodecContext) -> str | None:
    try:
        tag = str(context.codec_tag)
    except UnicodeDecodeError:
        return None
    return tag if tag != "\0\0\0\0" else None


class Stamp(NamedTuple):
    """A packet's own clock, in ticks of the stream; None where the container is silent."""

    pts: int | None
    dts: int | None
    duration: int


@dataclass(slots=True)
class CodedPacket:
    """One packet of the picture stream, in decoding order.

    `ordinal` counts from 0; `discard` means decode, do not show (before an edit list's start); `corrupt` is the
    demuxer's own word; `side_data` holds (kind, bytes) pairs; `position` is the byte offset in the plate or None.
    """

    ordinal: int
    stamp: Stamp
    data: bytes
    key: bool
    discard: bool
    corrupt: bool
    position: int | None
    side_data: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, packet: Packet[Any], ordinal: int) -> CodedPacket:
        side_data = tuple([(str(s.data_type), bytes(s)) for s in packet.iter_sidedata()])
        stamp = Stamp(packet.pts, packet.dts, packet.duration or 0)
        flags = (packet.is_keyframe, packet.is_discard, packet.is_corrupt)
        return cls(ordinal, stamp, bytes(packet), *flags, packet.pos, side_data)

    def to_av(self) -> Packet[Any]:
        """A packet for a decoder, numbered by ordinal."""
        packet = own_packet(self.data)
        for kind, data in self.side_data:
            if kind in _SIDE_DATA:
                new: Any = PacketSideData
                extra = new(_SIDE_DATA[kind], len(data))
                extra.update(data)
                packet.set_sidedata(extra)
        packet.pts = packet.dts = self.ordinal
        packet.is_keyframe = self.key
        return packet


def own_packet(data: bytes) -> Packet[Any]:
    """A packet with a copy of `data`.

    Not `Packet(data)`: that one lends Python's memory, which decoder threads give back under Python's lock; a decoder
    that is closed while they do so waits for them for ever.
    """
    packet: Packet[Any] = Packet(len(data))
    packet.update(data)
    return packet


_SIDE_DATA = {"palette": 0, "new_extradata": 1, "param_change": 2, "matroska_block_additional": 15}
"""Kinds of packet side data that decoders act on, with FFmpeg's numbers."""


@dataclass(slots=True)
class DecodeLog:
    """What went wrong while decoding: (ordinal of the packet being sent, reason)."""

    errors: list[tuple[int, str]] = field(default_factory=list)


class Decoded(NamedTuple):
    """A picture, the ordinal of its packet, and of the packet whose arrival released it (libavcodec's `pkt_dts`)."""

    ordinal: int | None
    trigger: int | None
    picture: VideoFrame


def decode_packets(
    setup: DecoderSetup,
    packets: Iterable[Packet[Any]],
    log: DecodeLog,
    *,
    threads: int = 0,
    exacting: bool = False,
    hardware: HWAccel | None = None,
) -> Iterator[Decoded]:
    """Pictures in the decoder's own (presentation) order, the same as a plain decode gives.

    `packets` carry their ordinal as pts. A packet that the decoder refuses is noted in `log` and skipped, as players
    do; `exacting` makes it refuse what it would otherwise decode with faults. The last pictures are flushed at the end.
    """
    context = setup.open(threads=threads, exacting=exacting, hardware=hardware)
    number = -1
    for packet in packets:
        number = packet.pts if packet.pts is not None else number
        yield from _send(context, packet, number, log)
    yield from _send(context, None, number, log)


def _send(context: VideoCodecContext, packet: Packet[Any] | None, number: int, log: DecodeLog) -> Iterator[Decoded]:
    try:
        frames = context.decode(packet)
    except av.error.EOFError:
        return
    except av.error.MemoryError:
        raise  # that is this machine's fault, not the packet's
    except av.error.FFmpegError as error:
        log.errors.append((number, str(error.strerror)))
        # At the end of the stream one refused picture must not hide those behind it.
        if packet is None:
            yield from _drain(context, number, log)
        return
    for frame in frames:
        yield Decoded(frame.pts, frame.dts, frame)


def _drain(context: VideoCodecContext, number: int, log: DecodeLog, tries: int = 64) -> Iterator[Decoded]:
    for _ in range(tries):
        try:
            frames = context.decode(None)
        except av.error.EOFError:
            return
        except av.error.MemoryError:
            raise
        except av.error.FFmpegError as error:
            log.errors.append((number, str(error.strerror)))
            continue
        for frame in frames:
            yield Decoded(frame.pts, frame.dts, frame)
