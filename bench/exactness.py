"""docs/exactness.md: what goes in comes out, for every kind of input that the tests make.

Each plate takes the farm's own way (probe, plan, cut, decode each segment, encode FFV1, merge, verify), in one chunk
and in several. The result is then decoded by plain PyAV, apart from all that, and compared with a plain decode of the
plate.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av

from farm.chunker.cut import PlateCutter
from farm.errors import FarmError, PlanMismatchError
from farm.media.container import picture_stream
from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from farm.media.reader import read_segment
from farm.media.timeline import Timeline
from farm.media.writer import ChunkWriter
from farm.merger.carry import losses
from farm.merger.clock import rescaled
from farm.merger.join import ChunkFile
from farm.merger.merge import MergeReport, merge
from tests.integration.media.truth import Hashes, plain_decode
from tests.integration.merger.workshop import Workshop, vmaf
from tests.media_factory import RECIPES, MediaFactory, ffmpeg, picture

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "exactness.md"
ONE_CHUNK, SEVERAL = 100_000.0, 0.5
FIT_BYTES = 250_000
NAMES = {
    "a name in Unicode": "Zoë – 映画 🎬.mp4",
    "quotes and spaces": 'it\'s "a film".mp4',
    "percent signs": "100%d of %s.mp4",
    "brackets and commas": "[0:v],(a);b=c.mp4",
    "a leading dash": "-i -y.mp4",
    "255 bytes": "n" * 251 + ".mp4",
}

RICH = "two sounds, longer and shorter than the picture, a forced subtitle, chapters, tags"

HEAD = """# What goes in comes out

`make exactness` writes this page. Every input is made by ffmpeg from synthetic pictures (`tests/media_factory.py`). It
goes through probe, plan, cut, decode, FFV1 encode, merge and verification with nothing changed, once as one chunk and
once in chunks of half a second; the results are then decoded by plain PyAV and compared with a plain decode of the
plate, frame by frame, all samples. One thread decodes the plate: with more, FFmpeg hides damage otherwise each time.

- **frames**: of the plate as plainly decoded, and of the results by one and by several chunks.
- **worst pts error**: against the plate's time rounded to Matroska's millisecond, the worst of both results.
- **tracks**: beside the picture, in the plate and in the results. QuickTime's timecode and chapter
  tracks become a tag and chapters in Matroska.
- **exact**: every frame has the same samples at the same time. Where frames could not be decoded, those before them
  stand in; they are counted, and all others are exact.
- **refused**: the farm says why and makes nothing.

| input | frames in | frames out (1 / n chunks) | worst pts error | tracks in | tracks out | verdict |
|---|---|---|---|---|---|---|
"""

QUALITY = """
## Chunks cost no quality

VMAF (libvmaf in the ffmpeg program, mean over 48 frames of a zoom into the Mandelbrot set at 320×180) of each lossy
preset's file in one chunk and in four. For `h264-fit` the four chunks are encoded as a whole by the merge; beside it
stands the ffmpeg program's own encode in two passes at the same bit rate.

| preset | one encode of the whole | four chunks | difference |
|---|---|---|---|
"""

TAIL = """
## What is not in the tables

- A film of two hours is planned and cut by `make bench-media` (`docs/media.md`), and not decoded here.
- HEVC and VP8 that are damaged in a way that FFmpeg's decoder does not notice (no error, no mark): one thread decodes
  them, so the result is the same each time and, in one chunk, that of a plain decode. In several chunks areas that the
  decoder never wrote may differ, since what was in its buffers before is another picture: so it was in 3 of 25 HEVC
  and 9 of 25 VP8 files with noise written into them. FFV1 behaves like that too where a slice's checksum is wrong.
- Damaged files by the thousand: `make fuzz` reads 2,500 copies of 25 clips that were cut off or had bits flipped, bytes
  overwritten, taken out or doubled. Its run of 1 December 2026 found one fault, a foreign error where a damaged
  transport stream announces a stream in its middle (now a refusal with byte and time); the run after
  that ended each case in frames or in a refusal: no crash, no hang, under 1.5 GB of memory.
- Edit lists and ordered chapters: the frames are those of a plain decode by FFmpeg, which plays every part at its own
  speed, gives a part that is to be a still as moving pictures, lets the frame before a gap last until its end, and
  takes chapters in the order of the file. `farm probe` and the job's warnings name each of these.
- Animated WebP: FFmpeg has no decoder for it. Pillow decodes the plate for the farm and for the comparison.
- Dolby Vision and HDR10+ are left out by every deliverable, and the job says so before it starts. Both lie beside or
  inside each packet, and between render and merge the picture goes through chunk files and a pipe (MP4, QuickTime,
  NUT) that carry nothing beside packets. FFmpeg's Matroska could hold HDR10+ there; that way is not built. FFV1,
  ProRes, DNxHR and H.264 have no place for Dolby Vision.
"""


@dataclass(frozen=True)
class Made:
    """One result, as plain PyAV reads it. `time_base` is in seconds."""

    frames: Hashes
    time_base: Fraction
    tracks: int
    timeline: Timeline
    facts: PlateFacts
    report: MergeReport


def render(plate: Path, folder: Path, chunk_seconds: float) -> Made:
    """The farm's way from a plate to its FFV1 deliverable; FarmError where it refuses."""
    folder.mkdir()
    facts = probe(plate)
    cutter = PlateCutter(plate, facts, folder, target_seconds=chunk_seconds)
    try:
        chunks = _rendered(cutter, facts, folder)
    except PlanMismatchError:
        cutter = PlateCutter(plate, facts, folder, target_seconds=chunk_seconds, by_decoding=True)
        chunks = _rendered(cutter, facts, folder)
    timeline, out = cutter.timeline(), folder / "out.mkv"
    report = merge(plate, facts, timeline, chunks, chunk_encoder(deliverable("ffv1"), facts), out)
    with av.open(str(out)) as container:
        time_base, tracks = Fraction(picture_stream(container).time_base or 1), len(container.streams) - 1
    return Made(plain_decode(out), time_base, tracks, timeline, facts, report)


def _rendered(cutter: PlateCutter, facts: PlateFacts, folder: Path) -> list[ChunkFile]:
    plan, cut, chunks = chunk_encoder(deliverable("ffv1"), facts), list(cutter.run()), []
    timeline = cutter.timeline()
    for chunk in cut:
        first, last = chunk.range.first, chunk.range.last
        path = folder / f"{first}{plan.chunk_suffix}"
        with ChunkWriter(path, plan, facts, timeline, first, last) as writer:
            for frame in read_segment(chunk.segment.path, facts, timeline, first, last):
                writer.write(frame)
            chunks.append(ChunkFile(path, writer.close()))
        chunk.segment.path.unlink()
    return chunks


def pts_error(made: Made, plain: Hashes) -> Fraction:
    """Seconds between a frame's time and the plate's, rounded to the deliverable's ticks; the worst."""
    base, concealed = made.timeline.time_base, set(made.report.concealed)
    times = [pts for index, (pts, _) in enumerate(made.frames) if index not in concealed]
    worst = Fraction(0)
    for pts, (before, _) in zip(times, plain, strict=False):
        if pts is not None and before is not None:
            due = rescaled(1, before * base + made.report.shift, made.time_base)
            worst = max(worst, abs(pts - due) * made.time_base)
    return worst


def verdict(made: Made, plain: Hashes) -> str:
    """In words, whether the result is the plate."""
    concealed = set(made.report.concealed)
    pictures = [crc for index, (_, crc) in enumerate(made.frames) if index not in concealed]
    due = [crc for _, crc in plain]
    if pictures == due:
        return f"exact; concealed frames: {len(concealed)}" if concealed else "exact"
    if len(pictures) != len(due):
        return f"WRONG: {len(pictures)} frames instead of {len(due)}"
    different = [index for index, (a, b) in enumerate(zip(pictures, due, strict=True)) if a != b]
    return f"WRONG: {len(different)} frames differ, the first is {different[0]}"


def row(name: str, plate: Path, folder: Path) -> str:
    """A line of the table."""
    try:
        one = render(plate, folder / "one", ONE_CHUNK)
        several = render(plate, folder / "several", SEVERAL)
    except FarmError as error:
        return f"| {name} | – | – | – | – | – | refused: {_cell(str(error))} |\n"
    plain = plain_decode(plate, threads=1)
    with av.open(str(plate)) as container:
        tracks = len(container.streams) - 1
    verdicts = {verdict(one, plain), verdict(several, plain)}
    worst = max(pts_error(one, plain), pts_error(several, plain))
    words = " / ".join(sorted(verdicts))
    if worst and one.report.verified.worst_pts_error == several.report.verified.worst_pts_error == 0:
        words += "; the plate's clock starts anew within it, the result has one clock"
    lost = [text for text in losses(one.facts, deliverable("ffv1")) if "millisecond" not in text]
    words += "".join(f"; {text}" for text in lost)
    words += "".join(f"; {note}" for note in one.report.verified.notes if "damaged" in note)
    frames = f"{len(one.frames)} / {len(several.frames)} ({several.report.chunks} chunks)"
    tracks_out = " / ".join(sorted({str(one.tracks), str(several.tracks)}))
    late = f"{float(worst) * 1000:g} ms"
    return f"| {name} | {len(plain)} | {frames} | {late} | {tracks} | {tracks_out} | {_cell(words)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")


def inputs(media: MediaFactory, folder: Path) -> Iterator[tuple[str, Path]]:
    """(what the table calls it, plate) of every input."""
    for clip in RECIPES:
        yield f"`{clip}`", media.make(clip)
    yield "H.264 at 59.94", media.make_custom(".mp4", *picture(rate="60000/1001"), "-pix_fmt", "yuv420p")
    for suffix, more in ((".mkv", "an attachment"), (".mp4", "a timecode"), (".mov", "a timecode")):
        yield f"H.264 in {suffix[1:]} with {RICH}, {more}", Workshop(folder, media).rich(suffix)
    for words, name in NAMES.items():
        plate = folder / name
        plate.write_bytes(media.make("h264_audio.mp4").read_bytes())
        yield f"`h264_audio.mp4` under {words}", plate


def quality_rows(media: MediaFactory, folder: Path) -> Iterator[str]:
    """The lines of the second table; one says WRONG where the difference is over one point."""
    source = ["-f", "lavfi", "-i", "mandelbrot=size=320x180:rate=24:start_scale=0.5", "-frames:v", "48"]
    plate = media.make_custom(".mkv", *source, "-c:v", "ffv1", "-pix_fmt", "yuv420p")
    for name in ("h264", "hevc10", "av1", "h264-fit"):
        scores = []
        for parts in (4,) if name == "h264-fit" else (1, 4):
            work = folder / f"{name}-{parts}"
            work.mkdir()
            rendered = Workshop(work, media).render(plate, name, parts, max_bytes=FIT_BYTES)
            rendered.merge()
            scores.append(vmaf(rendered.out, plate, work / "vmaf.json"))
            if name == "h264-fit":
                scores.insert(0, vmaf(_two_passes(plate, rendered.out, work), plate, work / "vmaf.json"))
        wrong = " WRONG" if abs(scores[1] - scores[0]) > 1 else ""
        yield f"| `{name}` | {scores[0]:.2f} | {scores[1]:.2f} | {scores[1] - scores[0]:+.2f}{wrong} |\n"


def _two_passes(plate: Path, like: Path, work: Path) -> Path:
    """The ffmpeg program's encode of the plate at the bit rate of `like`."""
    rate, out = str(probe(like).video.bit_rate), work / "program.mp4"
    same = ["-i", str(plate), "-c:v", "libx264", "-preset", "medium", "-profile:v", "high", "-g", "96"]
    passes = ["-b:v", rate, "-passlogfile", str(work / "passes")]
    ffmpeg(*same, *passes, "-pass", "1", "-f", "null", "-")
    ffmpeg(*same, *passes, "-pass", "2", str(out))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.exactness", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="inputs whose name holds this, or `quality`; the page is not written")
    wanted = parser.parse_args().only
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media = MediaFactory(folder)
        for number, (words, plate) in enumerate(inputs(media, folder)):
            if wanted is None or wanted in words:
                work = folder / f"work-{number}"
                work.mkdir()
                rows.append(row(words, plate, work))
                print(rows[-1], end="", flush=True)
        if wanted is None or wanted == "quality":
            quality = [QUALITY, *quality_rows(media, folder)]
            print("".join(quality))
            rows += quality
    if wanted is None:
        DOCUMENT.write_text(HEAD + "".join(rows) + TAIL)
    return 1 if any("WRONG" in line for line in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
