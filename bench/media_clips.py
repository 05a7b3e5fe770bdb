"""Plates for the media benchmark: a short clip is encoded and repeated by copying, which gives any length at once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from farm.media.ffmpeg import program

LOOP_SECONDS = 20
RATE = 24


def run_ffmpeg(*arguments: str | Path) -> None:
    """Run the bundled program; its last words are raised with a failure."""
    command = [program(), "-nostdin", "-hide_banner", "-loglevel", "error", "-y", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace")[-1000:])


class Clips:
    """Makes each clip once, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def small(self, minutes: float) -> Path:
        """320×180 at a low bit rate with sound: packets cost more than bytes."""
        return self._looped("small", "320x180", 0, minutes * 60 / LOOP_SECONDS)

    def large(self, minutes: float) -> Path:
        """1080p with grain and sound, some 12 Mbit/s: bytes cost more than packets."""
        return self._looped("large", "1920x1080", 7, minutes * 60 / LOOP_SECONDS)

    def many(self, frames: int) -> Path:
        """64×36, two different frames in turn."""
        return self._loop(self._clip("pair", "64x36", 0, frames=2), frames // 2)

    def _looped(self, name: str, size: str, grain: int, times: float) -> Path:
        return self._loop(self._clip(name, size, grain, frames=LOOP_SECONDS * RATE), max(1, round(times)))

    def _clip(self, name: str, size: str, grain: int, *, frames: int) -> Path:
        path = self.folder / f"{name}.mp4"
        if not path.exists():
            picture = f"testsrc2=size={size}:rate={RATE}" + (f",noise=alls={grain}:allf=t" if grain else "")
            sound = f"sine=frequency=440:sample_rate=48000:duration={frames / RATE}"
            inputs: list[str | Path] = ["-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound]
            codec = ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "48", "-bf", "2"]
            run_ffmpeg(*inputs, "-frames:v", str(frames), *codec, "-c:a", "pcm_s16le", "-f", "mov", path)
        return path

    def _loop(self, clip: Path, times: int) -> Path:
        """`clip` `times` over. The sound is coded as a whole: a loop of AAC would repeat its priming."""
        path = self.folder / f"{clip.stem}-{times}.mp4"
        if not path.exists():
            arguments: list[str | Path] = ["-stream_loop", str(times - 1), "-i", clip, "-c:v", "copy", "-c:a", "aac"]
            run_ffmpeg(*arguments, "-video_track_timescale", "12288", "-f", "mp4", path)
        return path
