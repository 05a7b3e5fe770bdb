"""Loudness of a deliverable's sound: measured over the whole film first, then brought to a norm by one gain.

Measured and applied by FFmpeg's `loudnorm`, which follows EBU R 128 and ITU-R BS.1770. The gain is one number for a
track, so what is soft or loud in it stays so. Where peaks would go over the norm's ceiling the gain is as much as they
allow, and the report says so.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from farm.errors import FarmError
from farm.media import ffmpeg
from farm.media.encoders import EncoderPlan
from farm.media.loudness import LoudnessNorm
from farm.merger.report import Findings

TOLERANCE = 0.5
"""LU by which the deliverable may miss what is due."""
_SILENT = -70.0
"""The absolute gate of BS.1770, LUFS: a track that is nowhere louder has no loudness."""
_LEAST_RANGE, _MOST_RANGE = 1.0, 50.0
_NO_RANGE = 0.1
_ROUNDING = 0.05
"""dB that a gain stays below the ceiling: loudnorm tells peaks to a hundredth."""


class Measured(BaseModel):
    """What loudnorm finds: LUFS, dBTP, LU, and the gate's threshold in LUFS. -inf LUFS for silence."""

    model_config = ConfigDict(frozen=True)

    integrated: float
    true_peak: float
    range: float
    threshold: float

    @property
    def silent(self) -> bool:
        return self.integrated <= _SILENT


def measure(path: Path, demuxer: str, index: int) -> Measured:
    """The loudness of stream `index` of a file, decoded once. FarmError where ffmpeg cannot decode it."""
    with tempfile.TemporaryDirectory(prefix="farm-loudness-") as name:
        stats = Path(name) / "stats.json"
        arguments = ["-protocol_whitelist", "file", "-f", demuxer, "-i", f"file:{path.absolute()}"]
        arguments += ["-map", f"0:{index}", "-af", f"loudnorm=print_format=json:stats_file={_quoted(stats)}"]
        where = f"measuring the loudness of stream {index}"
        ffmpeg.run([*arguments, "-f", "null", "-"], where=where, hide=(path.absolute(), path, stats))
        try:
            found = json.loads(stats.read_text())
            return Measured(
                integrated=float(found["input_i"]),
                true_peak=float(found["input_tp"]),
                range=float(found["input_lra"]),
                threshold=float(found["input_thresh"]),
            )
        except (OSError, ValueError, KeyError) as error:
            raise FarmError("ffmpeg gave no loudness.", where=where, do="Leave the loudness as it is.") from error


def _quoted(path: Path) -> str:
    """A path as a value in a filter graph: escaped once for the filter, and once for the graph."""
    value = "".join(f"\\{c}" if c in "\\':" else c for c in str(path))
    return "".join(f"\\{c}" if c in "\\'[],;" else c for c in value)


def filter_for(norm: LoudnessNorm, measured: Measured) -> str:
    """The filter that makes a track as loud as is due.

    loudnorm keeps to one gain as long as the range is no larger than wanted, so the track's own is what is wanted; a
    range of 0 would mean to it that nothing was measured.
    """
    wanted = min(_MOST_RANGE, max(_LEAST_RANGE, measured.range))
    settings = {
        "I": due(norm, measured),
        "TP": norm.true_peak,
        "LRA": wanted,
        "measured_I": measured.integrated,
        "measured_TP": measured.true_peak,
        "measured_LRA": max(_NO_RANGE, min(wanted, measured.range)),
        "measured_thresh": measured.threshold,
    }
    return "loudnorm=" + ":".join(f"{key}={value:g}" for key, value in settings.items()) + ":linear=true"


def due(norm: LoudnessNorm, measured: Measured) -> float:
    """LUFS that one gain brings the track to: the norm's, or less where its peaks allow no more."""
    return min(norm.integrated, measured.integrated + norm.true_peak - measured.true_peak - _ROUNDING)


def check(
    deliverable: Path,
    plan: EncoderPlan,
    before: Mapping[int, Measured],
    places: Mapping[int, int],
    findings: Findings,
) -> None:
    """Measure the deliverable's tracks; `before` is by the plate's stream, `places` where these are now."""
    norm = plan.loudness
    if norm is None:
        return
    for index, old in before.items():
        if index not in places:
            continue  # which the tracks' own check says
        new = measure(deliverable, plan.container, places[index])
        words = f"Audio stream {index} has {new.integrated:.1f} LUFS"
        wanted = due(norm, old)
        if abs(new.integrated - wanted) > TOLERANCE:
            findings.add("loudness", f"{words} instead of {wanted:.1f}.")
            continue
        less = f" instead of {norm.integrated:g}: its peaks allow no more" if wanted < norm.integrated else ""
        gain = f"one gain of {wanted - old.integrated:+.1f} dB"
        findings.note(f"{words}{less} ({norm.words}; it had {old.integrated:.1f}; {gain}).")
