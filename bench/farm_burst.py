"""1,000 jobs at once through the API as it runs: HTTP, upload, probe, store, transaction, wake-up."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from bench.common import Goal, at_most, noted
from bench.farm_fill import open_farm
from bench.media_clips import run_ffmpeg
from farm.api.schemas import JobIn
from farm.local.services import listen
from farm.local.valkey import Valkey

Goals = dict[str, Goal]

_BORDER = "facefarm-bench"
_OPTIONS = JobIn(title="burst", recipe="passthrough", deliverables=("review",)).model_dump_json(exclude_defaults=True)


@contextmanager
def served(url: str, folder: Path) -> Iterator[str]:
    """The API's own program on the database at `url`, with Valkey and a folder store; its base URL."""
    valkey = Valkey(folder / "valkey", folder)
    broker = valkey.service({"PATH": os.environ["PATH"]})
    valkey.clear()
    listener = listen("127.0.0.1", 0)
    environment = {
        **os.environ,
        "FARM_HOME": str(folder / "home"),
        "FARM_DATABASE_URL": url,
        "FARM_BROKER_URL": valkey.url(),
        "FARM_STORE": (folder / "store").as_uri(),
        "FARM_URL_SECRET": "a secret of this bench",
        "FARM_SESSION_SECRET": "another secret of this bench",
        "FARM_API_FD": str(listener.fileno()),
        "FARM_LOG_LEVEL": "warning",
    }
    programs = [
        subprocess.Popen(broker.argv, env=dict(broker.env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
        subprocess.Popen([sys.executable, "-m", "farm.api"], env=environment, pass_fds=[listener.fileno()]),
    ]
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        for program in reversed(programs):
            program.send_signal(signal.SIGTERM)
            program.wait(30)


class _Line:
    """One client: a connection that is kept alive, and requests made of bytes, so that its own cost is small."""

    def __init__(self, base: str, plate: bytes) -> None:
        self._connection = http.client.HTTPConnection(base.removeprefix("http://"))
        self._plate = plate

    def submit(self, key: str, mark: bytes) -> None:
        """Submit the plate with `mark` behind its last box: other bytes, the same picture. RuntimeError if refused."""
        body = b"".join(
            (
                f'--{_BORDER}\r\nContent-Disposition: form-data; name="options"\r\n\r\n{_OPTIONS}\r\n'.encode(),
                f'--{_BORDER}\r\nContent-Disposition: form-data; name="plate"; filename="plate"\r\n\r\n'.encode(),
                *(self._plate, struct.pack(">I4s", 8 + len(mark), b"free"), mark),
                f"\r\n--{_BORDER}--\r\n".encode(),
            )
        )
        head = {"Content-Type": f"multipart/form-data; boundary={_BORDER}", "Idempotency-Key": key}
        self._connection.request("POST", "/api/v1/jobs", body, head)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status != 201:
            raise RuntimeError(f"{answer.status}: {said[:300]!r}")


@dataclass(frozen=True, slots=True)
class _Load:
    """What a burst was: the seconds that each submission took, in order, what was refused, and how long it lasted."""

    taken: list[float]
    refused: list[str]
    elapsed: float


def load(base: str, plate: bytes, name: str, clients: int, number: int, *, own_plates: bool) -> _Load:
    """`clients` at once, each submitting anew as soon as it has its answer, until `number` are submitted.

    own_plates: each submission has a plate that the farm has never seen; else all have the same.
    """
    taken: list[float] = []
    refused: list[str] = []

    def client(line: _Line, first: int) -> None:
        for n in range(first, number, clients):
            begun = time.perf_counter()
            try:
                line.submit(f"{name} {n}", f"{name} {n if own_plates else 0}".encode())
            except RuntimeError as error:
                refused.append(str(error))
            taken.append(time.perf_counter() - begun)

    lines = [_Line(base, plate) for _ in range(clients)]
    lines[0].submit(f"{name}: the first, which loads what the others need", name.encode())
    threads = [threading.Thread(target=client, args=(line, n)) for n, line in enumerate(lines)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _Load(sorted(taken), refused, time.perf_counter() - begun)


def burst(url: str, clients: int = 8, number: int = 1_000) -> Goals:
    """1,000 submissions by 8 clients at once, each with a plate of its own, through the API of one process."""
    folder = Path(tempfile.mkdtemp(prefix="ffb-"))
    plate = folder / "plate.mp4"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=24", "-frames:v", "48", "-c:v", "libx264", plate)
    try:
        with served(url, folder) as base:
            own = load(base, plate.read_bytes(), "own", clients, number, own_plates=True)
            same = load(base, plate.read_bytes(), "same", clients, number // 4, own_plates=False)
            many = load(base, plate.read_bytes(), "many", 4 * clients, number // 2, own_plates=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for reason in (own.refused + same.refused + many.refused)[:3]:
        sys.stderr.write(f"refused: {reason}\n")
    with open_farm(url)() as session:
        stored = session.scalar(text("SELECT count(*) FROM job WHERE title = 'burst'")) or 0
    wanted = 3 + number + number // 4 + number // 2
    return {
        "burst_lost": at_most(wanted - stored, 0, "submissions of which no job was made"),
        "burst_api_p99_ms": at_most(1e3 * _p99(own), 500, f"{clients} clients at once, each plate a new one"),
        "burst_per_second": noted(number / own.elapsed, "of the same submissions"),
        "burst_known_plate_p99_ms": noted(1e3 * _p99(same), f"{clients} clients at once, all with the same plate"),
        "burst_many_clients_p99_ms": noted(1e3 * _p99(many), f"{4 * clients} clients at once, each plate a new one"),
    }


def _p99(load: _Load) -> float:
    return load.taken[int(len(load.taken) * 0.99)]
