"""The bundled ffmpeg program and its synthetic sources, for test media."""

from __future__ import annotations

import subprocess

import imageio_ffmpeg


def picture(size: str = "320x180", rate: str = "24", seconds: float = 2.0) -> list[str]:
    """Input arguments of a moving picture in which no two frames are the same."""
    return ["-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}:duration={seconds}"]


def tone(seconds: float = 2.0, hertz: int = 440) -> list[str]:
    """Input arguments of a sine tone."""
    return ["-f", "lavfi", "-i", f"sine=frequency={hertz}:duration={seconds}:sample_rate=48000"]


def ffmpeg(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the bundled program; raises AssertionError with its last words when it fails."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-nostdin", "-hide_banner", "-loglevel", "error", "-y", *arguments]
    if stdin is not None:
        command.remove("-nostdin")
    done = subprocess.run(command, capture_output=True, check=False, timeout=120, input=stdin)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done
