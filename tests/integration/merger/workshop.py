"""Renders plates with nothing changed, and looks at files with plain PyAV, apart from the code under test."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import ffmpeg as graph
import numpy as np

from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.planes import to_planes
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import decode_timeline
from farm.media.timeline import Timeline
from farm.media.whole import job_encoder
from farm.media.writer import ChunkWriter
from farm.merger.join import ChunkFile
from farm.merger.merge import MergeReport, merge
from tests.media_factory import MediaFactory, ffmpeg, picture, tone

LABEL = {"AIGC": '{"Label":"1","ContentProducer":"farm"}'}


@dataclass
class Rendered:
    """A plate's chunks, ready to be merged."""

    plate: Path
    facts: PlateFacts
    timeline: Timeline
    plan: EncoderPlan
    chunks: list[ChunkFile]
    out: Path

    def merge(self, **changes: Any) -> MergeReport:
        given = {"chunks": self.chunks, "metadata": LABEL, "threads": 2} | changes
        return merge(self.plate, self.facts, self.timeline, plan=self.plan, out=self.out, **given)


class Workshop:
    def __init__(self, folder: Path, media: MediaFactory) -> None:
        self.folder = folder
        self.media = media

    def render(
        self, plate: Path, name: str, parts: int = 1, *, max_bytes: int | None = None, loudness: str | None = None
    ) -> Rendered:
        """Every frame of the plate through chunk writers; the deliverable is not yet merged."""
        facts = probe(plate)
        timeline = decode_timeline(plate, facts)
        plan = job_encoder(name, facts, max_bytes=max_bytes, loudness=loudness, hardware=False, threads=2)
        cuts = sorted({round(len(timeline) * part / parts) for part in range(parts + 1)})
        frames = read_plate(plate, facts, timeline, threads=1)
        chunks = []
        for first, last in itertools.pairwise(cuts):
            path = self.folder / f"{first:06d}-{name}{plan.chunk_suffix}"
            with ChunkWriter(path, plan, facts, timeline, first, last) as writer:
                for _ in range(first, last):
                    frame = next(frames)
                    mask = np.zeros((frame.height, frame.width), np.uint8)
                    mask[: frame.height // 2] = 255
                    writer.write(frame, mask if plan.source.value != "picture" else None)
                chunks.append(ChunkFile(path, writer.close()))
        return Rendered(plate, facts, timeline, plan, chunks, self.folder / f"out{plan.suffix}")

    def inverted(self, rendered: Rendered) -> ChunkFile:
        """The second chunk with its luma turned into the negative, as a renderer gone wrong would make and sign it."""
        old = rendered.chunks[1].facts
        path = self.folder / "inverted"
        frames = read_plate(rendered.plate, rendered.facts, rendered.timeline, threads=1)
        with ChunkWriter(path, rendered.plan, rendered.facts, rendered.timeline, old.first, old.last) as writer:
            for frame in itertools.islice(frames, old.first, old.last):
                frame.planes[0][:] = 255 - frame.planes[0]
                writer.write(frame)
            return ChunkFile(path, writer.close())

    def rich(self, suffix: str) -> Path:
        """Two sound tracks, a forced subtitle, two chapters, tags; an attachment (mkv) or a timecode (mp4, mov)."""
        words, tags = self.media.folder / "words.srt", self.media.folder / "tags.txt"
        words.write_text("1\n00:00:00,100 --> 00:00:00,900\nhello\n\n2\n00:00:01,200 --> 00:00:01,900\nbye\n")
        chapters = "".join(
            f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={title}\n"
            for start, end, title in ((0, 900, "One"), (900, 2000, "Two"))
        )
        tags.write_text(f";FFMETADATA1\ntitle=The film\nartist=Åsa\n{chapters}")
        font = self.media.folder / "font.ttf"
        font.write_bytes(b"a font, as far as the muxer knows" * 20)
        sound = ["aac", "flac"] if suffix == ".mkv" else ["aac", "ac3"]
        more = ["-attach", str(font), "-metadata:s:t", "mimetype=font/ttf", "-metadata:s:t", "filename=font.ttf"]
        return self.media.make_custom(
            suffix,
            *[*picture(rate="24000/1001"), *tone(2.5), *tone(1.5, 880), "-i", str(words), "-i", str(tags)],
            *["-map", "0:v", "-map", "1:a", "-map", "2:a", "-map", "3:s", "-map_metadata", "4", "-map_chapters", "4"],
            *["-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-c:a:0", sound[0], "-c:a:1", sound[1]],
            *["-c:s", "srt" if suffix == ".mkv" else "mov_text"],
            *["-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=ger", "-metadata:s:s:0", "language=fre"],
            *["-disposition:a:0", "0", "-disposition:a:1", "default", "-disposition:s:0", "forced"],
            *(more if suffix == ".mkv" else ["-timecode", "10:00:00:00"]),
        )


def picture_hashes(path: Path) -> list[str]:
    """One hash a frame, as plain PyAV decodes it, in planar form."""
    hashes = []
    with av.open(str(path)) as container:
        for frame in container.decode(_picture(container)):
            digest = hashlib.sha256()
            for plane in to_planes(frame)[0]:
                digest.update(np.ascontiguousarray(plane).data)
            hashes.append(digest.hexdigest())
    return hashes


def picture_times(path: Path) -> list[Fraction]:
    """Seconds of each decoded frame."""
    with av.open(str(path)) as container:
        stream = _picture(container)
        return [frame.pts * Fraction(stream.time_base) for frame in container.decode(stream)]


def _picture(container: Any) -> Any:
    return next(s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic)


def payloads(path: Path, kind: str) -> list[str]:
    """For each stream of a kind the hash of its joined packets, empty cues left out."""
    with av.open(str(path)) as container:
        streams = [s for s in container.streams if s.type == kind]
        digests = {s.index: hashlib.sha256() for s in streams}
        for packet in container.demux(streams) if streams else ():
            if packet.size and bytes(packet) != b"\0\0":
                digests[packet.stream_index].update(bytes(packet))
    return [digest.hexdigest() for digest in digests.values()]


def vmaf(file: Path, plate: Path, log: Path) -> float:
    """Mean VMAF of a file's picture against the plate's, frame n against frame n; `log` is a file to be written."""

    def counted(path: Path) -> Any:
        return graph.input(str(path)).video.filter("format", "yuv420p").filter("settb", "AVTB").filter("setpts", "N")

    compared = graph.filter([counted(file), counted(plate)], "libvmaf", log_fmt="json", log_path=str(log))
    ffmpeg(*compared.output("-", f="null").get_args())
    return float(json.loads(log.read_text())["pooled_metrics"]["vmaf"]["mean"])


def sound_starts(path: Path) -> list[Fraction]:
    """Seconds of the first packet of each sound stream."""
    with av.open(str(path)) as container:
        first: dict[int, Fraction] = {}
        for packet in container.demux(container.streams.audio) if container.streams.audio else ():
            if packet.size and packet.pts is not None:
                first.setdefault(packet.stream_index, packet.pts * Fraction(packet.time_base))
        return list(first.values())


def remux(source: Path, out: Path, *arguments: str) -> Path:
    """Copy a file with ffmpeg; `arguments` spoil it."""
    ffmpeg("-i", str(source), "-map", "0", "-c", "copy", *arguments, str(out))
    return out
