"""`farm live` as people run it: real programs at both ends, on this machine alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from farm.media import stamp
from farm.media.ffmpeg import program
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import IDENTITIES, generate, portrait_picture
from tests.services import free_port

LIVE = (sys.executable, "-c", "from farm.cli import main; raise SystemExit(main())", "live")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("clip"), seconds=3, size=(480, 270), people=1).plate


def farm_live(*arguments: str | Path, home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LIVE, *map(str, arguments), "--json"],
        env={**os.environ, "FARM_HOME": str(home)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[str]) -> dict[str, object]:
    """The last report of a command that has to end well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    report: dict[str, object] = json.loads(out.splitlines()[-1])
    return report


def test_a_face_is_replaced_under_the_label_and_the_sound_goes_along(clip: Path, tmp_path: Path) -> None:
    picture, out = tmp_path / "face.png", tmp_path / "out.mp4"
    picture.write_bytes(portrait_picture(IDENTITIES[1]).read_bytes())
    report = ended(farm_live(clip, out, "--identity", picture, "--stamp", "--budget-ms", "10000", home=tmp_path))
    facts = probe(out)
    assert report["received"] == 72
    assert report["swapped"] == report["shown"] == facts.frames
    assert [stream.codec for stream in facts.streams] == ["aac"]
    assert '"Label":"1"' in facts.metadata["AIGC"]
    times = [stamp.read(np.asarray(frame.planes[0], np.uint8)) for frame in read_plate(out, facts)]
    assert None not in times
    assert times == sorted(times, key=lambda time: time or 0)


def test_from_rtmp_to_srt(clip: Path, tmp_path: Path) -> None:
    """A sender that is waited for, a receiver that waits; what arrives is the picture of what was sent."""
    near = f"rtmp://127.0.0.1:{free_port(socket.SOCK_STREAM)}/live/key"
    far = f"srt://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    out = tmp_path / "out.ts"
    quiet = [program(), "-nostdin", "-v", "error"]
    send = ["-re", "-i", str(clip), "-c:v", "libx264", "-tune", "zerolatency", "-c:a", "aac", "-f", "flv"]
    with ExitStack() as running:
        receiver = _kept(running, subprocess.Popen([*quiet, "-i", f"{far}?mode=listener", "-c", "copy", str(out)]))
        line = _kept(running, farm_live(near, far, "--recipe", "passthrough", "--listen", home=tmp_path))
        sender = _kept(running, _sent([*quiet, *send, near]))
        report = ended(line)
        assert sender.wait(30) == 0
        assert receiver.wait(30) == 0
    assert int(str(report["shown"])) > 30
    facts = probe(out)
    assert (facts.video.width, facts.video.height) == (480, 270)
    assert [stream.codec for stream in facts.streams] == ["aac"]


P = TypeVar("P", subprocess.Popen[str], subprocess.Popen[bytes])


def _kept(running: ExitStack, process: P) -> P:
    """The process, ended with the block whatever happens."""
    running.enter_context(process)
    running.callback(process.kill)
    return process


def _sent(command: list[str]) -> subprocess.Popen[bytes]:
    """A sender that was let in: an address at which nobody listens yet refuses it at once."""
    for _ in range(200):
        sender = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            if sender.wait(0.3) == 0:
                return sender
        except subprocess.TimeoutExpired:
            return sender
    raise AssertionError("nobody listened")


def test_a_source_that_cannot_be_opened_is_said_so(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"this is no video")
    process = farm_live(bad, tmp_path / "out.mp4", "--recipe", "passthrough", home=tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "cannot be opened" in err.splitlines()[-1]
    assert not (tmp_path / "out.mp4").exists()


def test_a_farm_that_asks_for_grants_shows_nothing_without(tmp_path: Path, clip: Path) -> None:
    command = [*LIVE, str(clip), str(tmp_path / "out.mp4"), "--identity", "a.png"]
    environment = {**os.environ, "FARM_HOME": str(tmp_path), "FARM_CONSENT_POLICY": "grant"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "recorded grant" in done.stderr.splitlines()[-1]
