"""What of a plate's other streams a container carries, converts or must leave out: known before a job starts.

The tables say what the bundled ffmpeg's muxers write and read back; they were measured by copying every kind.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from farm.media import hdr
from farm.media.deliverables import Deliverable, Source
from farm.media.encoders import EncoderPlan, chunk_encoder, resolve
from farm.media.facts import PlateFacts, StreamFacts
from farm.media.loudness import LoudnessNorm, loudness_norm


class Way(StrEnum):
    """How a stream comes into the deliverable."""

    COPY = "copy"
    CONVERT = "convert"
    LEAVE_OUT = "leave_out"


class Carried(BaseModel):
    """One stream of the plate. `codec` is the encoder that converts it; `words` say what is lost, "" for nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    kind: str
    codec: str = "copy"
    way: Way
    words: str = ""


_PCM = frozenset(f"pcm_{kind}" for kind in ("s16le", "s16be", "s24le", "s24be", "s32le", "s32be"))
_AUDIO: dict[str, frozenset[str]] = {
    "mp4": _PCM
    | {"aac", "ac3", "eac3", "mp3", "mp2", "alac", "flac", "opus", "vorbis", "dts"}
    | {"pcm_f32le", "pcm_f32be", "pcm_f64le", "pcm_f64be"},
    "mov": _PCM
    | {"aac", "ac3", "eac3", "mp3", "mp2", "alac", "dts", "amr_nb", "amr_wb", "adpcm_ima_qt", "adpcm_g722"}
    | {"pcm_f32le", "pcm_f32be", "pcm_f64le", "pcm_f64be", "pcm_u8", "pcm_s8", "pcm_mulaw", "pcm_alaw"},
    "matroska": _PCM
    | {"aac", "ac3", "eac3", "mp3", "mp2", "mp1", "alac", "flac", "opus", "vorbis", "dts", "truehd", "mlp", "tta"}
    | {"wavpack", "wmav1", "wmav2", "adpcm_ms", "adpcm_ima_wav", "amr_nb", "adpcm_g722"}
    | {"pcm_f32le", "pcm_f64le", "pcm_u8", "pcm_mulaw", "pcm_alaw"},
}
# Lossless homes for sound that a container does not take.
_AUDIO_HOME = {"mp4": "flac", "mov": "pcm_s24le", "matroska": "flac"}
# What plays wherever the container does, or loses nothing.
_LOUD_HOME = {"mp4": "aac", "mov": "pcm_s24le", "matroska": "flac"}
_FLOAT_HOME = {"pcm_f32be": "pcm_f32le", "pcm_f64be": "pcm_f64le"}

_SUBTITLES: dict[str, frozenset[str]] = {
    "mp4": frozenset({"mov_text"}),
    "mov": frozenset({"mov_text"}),
    "matroska": frozenset(
        {"subrip", "srt", "ass", "ssa", "webvtt", "text", "dvd_subtitle", "dvb_subtitle", "hdmv_pgs_subtitle"}
    ),
}
_TEXT_SUBTITLES = frozenset({"subrip", "srt", "ass", "ssa", "webvtt", "text", "mov_text"})
_TEXT_HOME = {"mp4": "mov_text", "mov": "mov_text", "matroska": "subrip"}
_TEXT_LOSS = {
    "ass": "its styles and positions are lost",
    "ssa": "its styles and positions are lost",
    "webvtt": "its positions are lost",
    "mov_text": "its boxes and fonts are lost",
}

_PICTURES: dict[str, frozenset[str]] = {
    "mp4": frozenset({"h264", "hevc", "av1", "mpeg4", "mpeg2video", "mjpeg", "png", "vp9"}),
    "mov": frozenset({"h264", "hevc", "mpeg4", "mpeg2video", "mjpeg", "png", "prores", "dnxhd", "dvvideo"}),
    "matroska": frozenset(
        {"h264", "hevc", "av1", "mpeg4", "mpeg2video", "mjpeg", "png", "vp9", "vp8", "ffv1", "prores", "theora"}
    ),
}


COVER_TYPES = {"mjpeg": "image/jpeg", "png": "image/png"}


def is_cover(stream: StreamFacts) -> bool:
    """Whether a stream is a still picture that stands for the film."""
    return stream.kind == "video" and "attached_pic" in stream.disposition


def carriage(facts: PlateFacts, plan: EncoderPlan) -> tuple[Carried, ...]:
    """For every stream but the worked-on picture, in the plate's order: copied, converted or left out."""
    return tuple(_carried(stream, plan) for stream in facts.streams)


def _carried(stream: StreamFacts, plan: EncoderPlan) -> Carried:
    if not plan.carries_tracks:
        return Carried(index=stream.index, kind=stream.kind, way=Way.LEAVE_OUT)
    if stream.kind == "audio" and plan.loudness is not None and stream.codec != "unknown":
        return _made_as_loud(stream, plan.container, plan.loudness)
    decide = {"audio": _audio, "subtitle": _subtitle, "video": _picture, "attachment": _attachment}
    return decide.get(stream.kind, _data)(stream, plan.container)


def _copied(stream: StreamFacts) -> Carried:
    return Carried(index=stream.index, kind=stream.kind, way=Way.COPY)


def _left_out(stream: StreamFacts, words: str) -> Carried:
    return Carried(index=stream.index, kind=stream.kind, way=Way.LEAVE_OUT, words=words)


def _audio(stream: StreamFacts, container: str) -> Carried:
    if stream.codec in _AUDIO[container]:
        return _copied(stream)
    if stream.codec == "unknown":
        return _left_out(stream, f"{_name(stream)} is in a codec that is not known, so it is left out.")
    home = _FLOAT_HOME.get(stream.codec, _AUDIO_HOME[container]) if container == "matroska" else _AUDIO_HOME[container]
    words = (
        f"{_name(stream)} becomes {home}, which keeps the sound as decoded: {_title(container)} has no {stream.codec}."
    )
    return Carried(index=stream.index, kind="audio", codec=home, way=Way.CONVERT, words=words)


def _made_as_loud(stream: StreamFacts, container: str, norm: LoudnessNorm) -> Carried:
    home = _LOUD_HOME[container]
    words = f"{_name(stream)} becomes {home} of {norm.integrated:g} LUFS ({norm.words})."
    return Carried(index=stream.index, kind="audio", codec=home, way=Way.CONVERT, words=words)


def _subtitle(stream: StreamFacts, container: str) -> Carried:
    if stream.codec in _SUBTITLES[container]:
        return _copied(stream)
    if stream.codec in _TEXT_SUBTITLES:
        home, loss = _TEXT_HOME[container], _TEXT_LOSS.get(stream.codec)
        words = f"{_name(stream)} becomes {home}" + (f": {loss}." if loss else ", with the same words and times.")
        return Carried(index=stream.index, kind="subtitle", codec=home, way=Way.CONVERT, words=words)
    return _left_out(stream, f"{_name(stream)} is left out: {_title(container)} cannot carry {stream.codec}.")


def _picture(stream: StreamFacts, container: str) -> Carried:
    if is_cover(stream):
        if container == "matroska" and stream.codec in COVER_TYPES:
            return _copied(stream)
        # FFmpeg writes either the tags that a label needs or a cover, and a label must be there.
        return _left_out(
            stream, f"Cover art (stream {stream.index}) is left out: with the label's tags it has no place."
        )
    if stream.codec in _PICTURES[container]:
        return _copied(stream)
    return _left_out(stream, f"{_name(stream)} is left out: {_title(container)} cannot carry {stream.codec}.")


def _attachment(stream: StreamFacts, container: str) -> Carried:
    if container == "matroska":
        return _copied(stream)
    return _left_out(stream, f"{_name(stream)} is left out: {_title(container)} has no attachments.")


def _data(stream: StreamFacts, container: str) -> Carried:
    # Timecode tracks and chapter tracks are written anew from the timecode and the chapters, which are kept.
    if "timecode" in stream.metadata or stream.codec in ("bin_data", "none", "tmcd", "unknown"):
        return _left_out(stream, "")
    return _left_out(stream, f"{_name(stream)} is left out: {_title(container)} cannot carry it from this plate.")


def _name(stream: StreamFacts) -> str:
    language = f", {stream.language}" if stream.language and stream.language != "und" else ""
    return f"{stream.kind.capitalize()} stream {stream.index} ({stream.codec}{language})"


def _title(container: str) -> str:
    return {"mp4": "MP4", "mov": "QuickTime", "matroska": "Matroska"}[container]


def losses(facts: PlateFacts, deliverable: Deliverable, *, loudness: str | None = None) -> list[str]:
    """What the deliverable will not have of this plate, in sentences; to be shown before the job starts.

    `loudness` is the name of the norm that the job asks for.
    The choice of hardware does not matter here, so none is probed.
    """
    norm = loudness_norm(loudness) if loudness is not None else None
    plan = chunk_encoder(resolve(deliverable, facts), facts, hardware=False).model_copy(update={"loudness": norm})
    words = [item.words for item in carriage(facts, plan) if item.words]
    if plan.source is not Source.PICTURE:
        return words
    return [*_picture_losses(facts, plan), *words]


def _picture_losses(facts: PlateFacts, plan: EncoderPlan) -> list[str]:
    video = facts.video
    words = list(plan.changes)
    if video.colour.transfer in hdr.HDR_TRANSFERS and "le" not in plan.sample_format:
        words.append("The plate is HDR and stays so, but in 8 bits: gradients will band. Choose hevc10 for 10 bits.")
    if any(key in video.side_data for key in hdr.DOLBY_VISION):
        words.append("Dolby Vision metadata is left out: it describes the old picture. The base layer is kept.")
    if any(key in video.side_data for key in hdr.DYNAMIC):
        words.append("HDR10+ metadata is left out: it describes the old picture. HDR10 metadata is kept.")
    if any("Closed Captions" in key for key in video.side_data):
        words.append("Closed captions inside the picture are left out.")
    if plan.container == "matroska":
        words += _matroska_losses(facts)
    return words


def _matroska_losses(facts: PlateFacts) -> list[str]:
    words = []
    if (facts.video.time_base * 1000).denominator != 1:
        words.append("Matroska keeps time to the millisecond: each time stamp is rounded to the nearest one.")
    matrix = facts.video.display_matrix
    if matrix is not None and matrix[0] * matrix[4] - matrix[1] * matrix[3] < 0:
        words.append("Matroska has no mirrored pictures: the rotation is kept, the mirroring is not.")
    return words
