"""1,000 jobs at once through the API as it runs: HTTP, upload, probe, store, transaction, wake-up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from bench.common import Goal, at_most, noted
from bench.farm_fill import open_farm
from bench.media_clips import run_ffmpeg
from farm.api.schemas import JobIn
from farm.client import Client
from farm.errors import FarmError
from farm.local.services import listen
from farm.local.valkey import Valkey

Goals = dict[str, Goal]


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


def burst(url: str, clients: int = 8, number: int = 1_000) -> Goals:
    """1,000 submissions by 8 clients at once, each with its plate, through the API of one process."""
    folder = Path(tempfile.mkdtemp(prefix="ffb-"))
    plate = folder / "plate.mp4"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=24", "-frames:v", "48", "-c:v", "libx264", plate)
    options = JobIn(title="burst", recipe="passthrough", deliverables=("review",))
    taken: list[float] = []
    refused: list[str] = []

    def submit(client: Client, name: int) -> None:
        for n in range(number // clients):
            begun = time.perf_counter()
            try:
                client.submit(options, plate=plate, idempotency_key=f"{name} {n}")
            except FarmError as error:
                refused.append(str(error))
            taken.append(time.perf_counter() - begun)

    try:
        with served(url, folder) as base:
            made = [Client(base) for _ in range(clients)]
            made[0].submit(options, plate=plate, idempotency_key="the first, which loads what the others need")
            begun = time.perf_counter()
            threads = [threading.Thread(target=submit, args=(client, n)) for n, client in enumerate(made)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            elapsed = time.perf_counter() - begun
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for reason in refused[:3]:
        sys.stderr.write(f"refused: {reason}\n")
    with open_farm(url)() as session:
        stored = session.scalar(text("SELECT count(*) FROM job WHERE title = 'burst'")) or 0
    taken.sort()
    return {
        "burst_lost": at_most(number + 1 - stored, 0, "submissions of which no job was made"),
        "burst_api_p99_ms": at_most(1e3 * taken[int(len(taken) * 0.99)], 500, "8 clients at once, uploads and probes"),
        "burst_per_second": noted(number / elapsed, "of the same submissions"),
    }
