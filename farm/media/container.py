"""Open a plate for reading: file input only, allow-listed containers and codecs, a deadline on every read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import av.error
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from farm.errors import InputError, NotFoundError
from farm.media import limits, webp

_OPTIONS = {
    "protocol_whitelist": "file",
    "format_whitelist": ",".join(limits.DEMUXERS),
    "codec_whitelist": ",".join((*limits.VIDEO_DECODERS, *limits.AUDIO_DECODERS)),
    "max_streams": str(limits.MAX_STREAMS),
    "max_pixels": str(limits.MAX_PIXELS),
    "probesize": str(limits.PROBE_BYTES),
    "analyzeduration": "30000000",
}


@contextmanager
def open_container(path: Path, *, where: str = "the plate") -> Iterator[InputContainer]:
    """The demuxer of `path`, closed at the end.

    `where` stands in messages in place of the name, which may be private. Raises NotFoundError, InputError.
    """
    _check_file(path, where)
    film = webp.PngFilm(path, where) if webp.is_animation(path) else None
    try:
        # "file:" keeps a name with a colon from being read as a protocol.
        container = av.open(film or f"file:{path}", "r", format=webp.MUXED_AS if film else None, options=_OPTIONS,
                            timeout=limits.READ_TIMEOUT_SECONDS, metadata_errors="replace")  # fmt: skip
    except av.error.MemoryError:
        raise
    except (av.error.FFmpegError, ValueError) as error:
        raise refusal(error, path, where) from error
    try:
        yield container
    except (av.error.ExitError, av.error.TimeoutError) as error:
        raise refusal(error, path, where) from error
    except av.error.MemoryError:
        raise
    except av.error.FFmpegError as error:
        raise InputError(
            f"The file cannot be read any further ({_words(error)}).", where=where, do="Copy or upload it again."
        ) from error
    finally:
        container.close()
        if film is not None:
            film.close()


def container_of(container: InputContainer, path: Path) -> tuple[str, Fraction | None]:
    """FFmpeg's name of the plate's demuxer, and the seconds that the container says it lasts."""
    if webp.is_animation(path):
        return webp.CONTAINER, webp.PngFilm(path, "the plate").seconds
    return container.format.name, Fraction(container.duration, 1_000_000) if container.duration else None


def _check_file(path: Path, where: str) -> None:
    if not path.exists():
        raise NotFoundError("There is no such file.", where=where, do="Check the path.")
    if not path.is_file():
        raise InputError("This is not a file.", where=where, do="Give a video file.")
    if path.stat().st_size == 0:
        raise InputError("The file is empty (0 bytes).", where=where, do="Copy or upload it again.")


def refusal(error: Exception, path: Path, where: str) -> InputError:
    """The reason, in words, why a container cannot be opened."""
    with path.open("rb") as file:
        head = file.read(4096)
    size = path.stat().st_size
    if isinstance(error, (av.error.ExitError, av.error.TimeoutError)):
        return InputError(f"Reading gave nothing for {limits.READ_TIMEOUT_SECONDS:.0f} seconds.", where=where,
                          do="Check the disk or the network share that the file lies on.")  # fmt: skip
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"):
        return InputError(
            f"The MP4/MOV file has no readable index (moov) in its {size} bytes: it was cut off before its end.",
            where=where,
            do="Copy or upload it again, or repair it with the recorder's own tool.",
        )
    if _is_text(head):
        return InputError("This is a text file, not a video.", where=where, do="Give a video file.")
    return InputError(
        f"No supported container was recognised in these {size} bytes ({_words(error)}).",
        where=where,
        do="Give an MP4, MOV, MKV, WebM, MXF, TS, AVI or similar video file.",
    )


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return False
        text = head[: error.start].decode("utf-8")
    return all(c.isprintable() or c.isspace() for c in text)


def _words(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return str(text).rstrip(".")


def picture_stream(container: InputContainer, index: int | None = None, *, where: str = "the plate") -> VideoStream:
    """The picture that the farm works on: stream `index`, or the default or largest that is no cover art."""
    videos = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if index is not None:
        videos = [s for s in videos if s.index == index]
    if not videos:
        raise InputError("The file has no video stream.", where=where, do="Give a file with moving pictures.")
    usable = [s for s in videos if s.codec_context is not None]
    if not usable:
        raise InputError(
            "The video stream's codec is not known.", where=where, do="Convert it to ProRes, H.264 or HEVC."
        )

    def rank(stream: VideoStream) -> tuple[bool, int, int]:
        still = bool(stream.disposition & (Disposition.still_image | Disposition.timed_thumbnails))
        default = bool(stream.disposition & Disposition.default)
        return (not still, stream.codec_context.width * stream.codec_context.height * 2 + default, -stream.index)

    return max(usable, key=rank)


def time_base_of(stream: VideoStream) -> Fraction:
    """Seconds a tick of the stream's time stamps."""
    if not stream.time_base:
        raise InputError("The picture has no clock.", where="the plate", do="Rewrap it into another container.")
    return stream.time_base
