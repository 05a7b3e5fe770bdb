"""How late a live stream comes out, from end to end, by times burnt into its pictures.

A sender burns the time into each picture of a drawn plate, encodes it and sends it by RTMP; a receiver takes what comes
by SRT, decodes it, and reads the times. In between stands `farm live`, with the swap and with nothing to do, or a plain
ffmpeg that decodes and encodes the same way: what a user would relay with. All on this machine, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import Goal, at_most, finish, noted
from farm.media import stamp
from farm.media.ffmpeg import program
from farm.media.frame import Frame
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import IDENTITIES, generate, portrait_picture
from tests.services import free_port

WIDTH, HEIGHT, RATE = 640, 360, 25
BUDGET_MS = 400
LIVE = (sys.executable, "-c", "from farm.cli import main; raise SystemExit(main())", "live")


@dataclass
class Run:
    """What one relay did: delays of the pictures that came out, in milliseconds, and its own report if it has one."""

    sent: int = 0
    delays: list[int] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """Of the second half: the first pictures wait for programs to start."""
        return statistics.median(self.delays[len(self.delays) // 2 :])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of stream for each of the three relays")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="facefarm-bench-live-") as name:
        work = Path(name)
        plate = generate(work, seconds=4, fps=Fraction(RATE), size=(WIDTH, HEIGHT), people=1).plate
        frames = list(read_plate(plate, probe(plate)))
        picture = work / "face.png"
        picture.write_bytes(portrait_picture(IDENTITIES[1]).read_bytes())
        runs = {
            "ffmpeg": _run(frames, told.seconds, work, _relay),
            "passthrough": _run(frames, told.seconds, work, lambda a, b: _line(a, b, "--recipe", "passthrough")),
            "swap": _run(frames, told.seconds, work, lambda a, b: _line(a, b, "--identity", str(picture))),
        }
    return finish("live", _goals(runs))


def _goals(runs: dict[str, Run]) -> dict[str, Goal]:
    swap = runs["swap"]
    shown = swap.report["shown"] / max(1, swap.report["received"])
    return {
        "delay_through_ffmpeg_ms": noted(runs["ffmpeg"].median, "decode and encode alone, end to end"),
        "delay_passthrough_ms": noted(runs["passthrough"].median, "farm live with nothing to do, end to end"),
        "delay_swap_ms": noted(swap.median, "farm live with the bundled swap on this machine, end to end"),
        "swap_in_the_line_ms": at_most(
            swap.report["delay_ms"], BUDGET_MS, "from arrival to the encoder, median; the budget"
        ),
        "swap_in_the_line_95_ms": noted(swap.report["delay_95_ms"], "the same, 95th percentile"),
        "pictures_shown_share": noted(shown, "the rest was dropped as stale or left out to stay inside the budget"),
        "faces_swapped_share": noted(swap.report["swapped"] / max(1, swap.report["shown"]), "of the pictures shown"),
        "detector_cadence": noted(swap.report["cadence"], "at the end: it looked at every n-th picture"),
    }


def _run(frames: Sequence[Frame], seconds: float, work: Path, relay: Any) -> Run:
    near = f"rtmp://127.0.0.1:{free_port(socket.SOCK_STREAM)}/live/key"
    far = f"srt://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    run = Run()
    with ExitStack() as running:
        receiver = _kept(running, _receiver(far))
        reading = threading.Thread(target=_read, args=(receiver, run.delays))
        reading.start()
        line = _kept(running, relay(near, far))
        sender = _kept(running, _sender(near))
        run.sent = _send(frames, sender, seconds)
        sender.wait(30)
        out, _ = line.communicate(timeout=60)
        reading.join(60)
    lines = [text for text in out.decode().splitlines() if text.startswith("{")]
    run.report = json.loads(lines[-1]) if lines else {}
    return run


def _relay(near: str, far: str) -> subprocess.Popen[bytes]:
    """A plain ffmpeg with the encoder settings of the line."""
    probe_less = ["-flags", "low_delay", "-probesize", "1000000", "-analyzeduration", "500000", "-listen", "1"]
    encode = ["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-crf", "20", "-g", str(2 * RATE)]
    command = [program(), "-nostdin", "-v", "error", *probe_less, "-i", near, *encode, "-f", "mpegts", far]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _line(near: str, far: str, *options: str) -> subprocess.Popen[bytes]:
    command = [*LIVE, near, far, "--listen", "--json", "--budget-ms", str(BUDGET_MS), *options]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return subprocess.Popen(command, env=kept, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _receiver(far: str) -> subprocess.Popen[bytes]:
    before = ["-flags", "low_delay", "-probesize", "500000", "-analyzeduration", "500000"]
    raw = ["-an", "-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "rawvideo", "pipe:1"]
    command = [program(), "-nostdin", "-v", "error", *before, "-i", f"{far}?mode=listener", *raw]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _sender(near: str) -> subprocess.Popen[bytes]:
    """An encoder that was let in: an address at which nobody listens yet refuses it at once."""
    raw = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{WIDTH}x{HEIGHT}", "-r", str(RATE), "-i", "pipe:0"]
    encode = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", str(RATE), "-crf", "20"]
    target = near.split("/")[2].split(":")
    while True:  # the listener takes one caller only, so it is asked whether it is there by looking, not by calling
        if _listens(int(target[1])):
            break
        time.sleep(0.05)
    command = [program(), "-v", "error", *raw, *encode, "-f", "flv", near]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _listens(port: int) -> bool:
    """Whether a socket of this machine listens at the port (state 0A in the kernel's table)."""
    table = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return any(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A" for row in table)


def _send(frames: Sequence[Frame], sender: subprocess.Popen[bytes], seconds: float) -> int:
    assert sender.stdin is not None
    start, sent = time.monotonic(), 0
    while sent / RATE < seconds:
        time.sleep(max(0.0, start + sent / RATE - time.monotonic()))
        frame = frames[sent % len(frames)]
        stamp.burn(frame, _now())
        for plane in frame.planes:
            sender.stdin.write(plane.tobytes())
        sender.stdin.flush()
        sent += 1
    sender.stdin.close()
    return sent


def _read(receiver: subprocess.Popen[bytes], delays: list[int]) -> None:
    assert receiver.stdout is not None
    size = WIDTH * HEIGHT
    while len(data := receiver.stdout.read(size * 3 // 2)) == size * 3 // 2:
        luma: NDArray[np.uint8] = np.frombuffer(data, np.uint8, size).reshape(HEIGHT, WIDTH)
        sent = stamp.read(luma)
        if sent is not None:
            delays.append(_now() - sent)


def _now() -> int:
    return round(time.time() * 1000) % (1 << 40)


def _kept(running: ExitStack, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    running.enter_context(process)
    running.callback(process.kill)
    return process


if __name__ == "__main__":
    sys.exit(main())
