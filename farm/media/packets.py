"""The packets of a plate's picture stream, in the order of the file, each with its ordinal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av.error
from av import Packet
from av.container import InputContainer
from av.stream import Discard
from av.video.stream import VideoStream

from farm.errors import InputError
from farm.media import limits
from farm.media.container import open_container, picture_stream, time_base_of
from farm.media.decoder import CodedPacket, DecoderSetup, Stamp
from farm.media.facts import PlateFacts


class PacketReader:
    """Reads the picture stream once, front to back.

    Attributes
    ----------
    setup: what a decoder of these packets must be told.
    broke_at: the byte offset behind the last packet before the container could not be read; None where its end was
        reached.
    """

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self._container = container
        self._stream = stream
        self.time_base = time_base_of(stream)
        self.setup = DecoderSetup.of(stream.codec_context)
        self.broke_at: int | None = None
        self._shown_until = 0

    def __iter__(self) -> Iterator[tuple[int, Packet[Any]]]:
        """(ordinal, packet as the demuxer gave it); ends early, with `broke_at` set, where the file is broken."""
        ordinal, position = 0, 0
        try:
            for packet in self._container.demux(self._stream):
                if packet.size == 0:
                    continue
                if packet.size > limits.MAX_PACKET_BYTES:
                    raise InputError(
                        f"Packet {ordinal} claims {packet.size} bytes.",
                        where=f"the plate at byte {packet.pos or position}",
                        do="The file is damaged; copy it again.",
                    )
                position = position if packet.pos is None else packet.pos + packet.size
                if packet.pts is not None:
                    self._shown_until = max(self._shown_until, packet.pts + (packet.duration or 0))
                yield ordinal, packet
                ordinal += 1
        except (av.error.ExitError, av.error.TimeoutError) as error:
            raise InputError(
                f"Reading gave nothing for {limits.READ_TIMEOUT_SECONDS:.0f} seconds.",
                where=f"the plate after byte {position}",
                do="Check the disk or the network share that the file lies on.",
            ) from error
        except av.error.FFmpegError:
            self.broke_at = position
        except IndexError as error:  # PyAV knows only the streams that were there when it opened the file
            raise InputError(
                "A stream appears in the middle of the file that was not there at its start.",
                where=f"the plate after byte {position}, at {float(self._shown_until * self.time_base):.3f} s",
                do="Rewrap it, so that all streams are announced at the start, or cut it in two there.",
            ) from error

    def require_whole(self) -> None:
        """InputError, with byte and time, where the container could not be read to its end."""
        if self.broke_at is not None:
            raise breaks_off(self.broke_at, float(self._shown_until * self.time_base))

    def coded(self) -> Iterator[CodedPacket]:
        """The same packets as plain data."""
        for ordinal, packet in self:
            yield CodedPacket.of(packet, ordinal)

    def numbered(self, stamps: list[Stamp]) -> Iterator[Packet[Any]]:
        """The packets for `decode_packets`: numbered by ordinal; their own stamps are appended to `stamps`."""
        for ordinal, packet in self:
            stamps.append(Stamp(packet.pts, packet.dts, packet.duration or 0))
            packet.pts = packet.dts = ordinal
            yield packet


def breaks_off(byte: int, seconds: float, where: str = "the plate") -> InputError:
    """What is said of a container that cannot be read behind `byte`, which is at `seconds` of the picture's clock."""
    return InputError(
        f"The container cannot be read after byte {byte}, at {seconds:.3f} s.",
        where=where,
        do="Copy or upload it again; if it is all that is left of the film, rewrap what plays.",
    )


@contextmanager
def open_packets(path: Path, facts: PlateFacts) -> Iterator[PacketReader]:
    """The picture stream that `facts` names; other streams are not read. Raises InputError, NotFoundError."""
    with open_container(path) as container:
        stream = picture_stream(container, facts.video.stream_index)
        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        yield PacketReader(container, stream)
