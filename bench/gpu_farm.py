"""A whole farm on this machine's card: API, PostgreSQL, Valkey, S3, a worker with its slots, and real jobs.

Everything is started as an operator starts it, by the embedded farm's services, with an S3 server of its own in place
of a folder. Jobs are submitted over HTTP: a neural swap on fresh slots, the same again on a longer plate, one in whose
middle a slot is killed (SIGKILL), and the bundled mesh-warp. What each chunk's record says is counted, and every film
is decoded and compared with its plate's clock.

    python -m bench.gpu_farm [--plate FILE] [--network FILE] [--seconds 120] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import requests
from sqlalchemy import select

from bench.common import machine
from bench.gpu_material import draw_plate, repeat
from farm.client import Client
from farm.db.engine import Sessions, make_engine, make_sessions
from farm.db.tables import Footprint
from farm.errors import FarmError
from farm.inference.spec import LicenceClass
from farm.jobs.views import attempts
from farm.local.farm import LocalFarm
from farm.local.process import Service
from farm.local.services import Plan, farm_services
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import scan_timeline
from farm.sample import IDENTITIES, portrait_picture
from farm.settings import load_settings
from farm.store.s3 import connect
from farm.worker.devices import load_nvml
from tests.acceptance.conftest import Farm, own_copy
from tests.services import free_port, ministack
from tests.stand_ins import stand_in_catalogue

BUCKET = "bench"
OURS = "FACEFARM_BENCH_SERVICES"
LOGIN = {"region": "us-east-1", "access_key": "test", "secret_key": "test"}


def services(plan: Plan) -> list[Service]:
    """The embedded farm's, with the settings that the bench left in the environment."""
    more = json.loads(os.environ[OURS])
    own = ("reconciler", "worker", "api")
    return [replace(one, env={**one.env, **more}) if one.name in own else one for one in farm_services(plan)]


@contextmanager
def card_farm(folder: Path, network: Path | None, metrics: int, back_end: str) -> Iterator[Farm]:
    """A farm whose objects lie in S3; `network` stands in for the inswapper's weights, None for a tiny one."""
    home = folder / "home"
    full = {"inswapper-128": with_emap(network)} if network else None
    stand_in_catalogue(folder / "models", home, ["inswapper-128"], full=full)
    with ministack(folder) as endpoint:
        connect(endpoint=endpoint, path_style=True, **LOGIN).create_bucket(Bucket=BUCKET)
        os.environ[OURS] = json.dumps({"FARM_STORE": f"s3://{BUCKET}/farm"})
        settings = load_settings(
            home=home, url=None, models_dir=folder / "models", allowed_licences=(str(LicenceClass.NON_COMMERCIAL),),
            s3_endpoint=endpoint, s3_path_style=True, worker_metrics_port=metrics, back_end=back_end,
            **{f"s3_{name}": value for name, value in LOGIN.items()},
        )  # fmt: skip
        with LocalFarm(home, settings, services="bench.gpu_farm:services") as local:
            assert local.state is not None
            client = Client(local.state.url)
            yield Farm(local, client)
            client.close()


def with_emap(network: Path) -> bytes:
    """The network with what the published inswapper carries last among its weights: the map of embeddings."""
    model = onnx.load(str(network))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(512, dtype=np.float32), "emap"))
    return bytes(model.SerializeToString())


class Run:
    """The jobs of one farm, and what is written down of them."""

    def __init__(self, farm: Farm, folder: Path, sessions: Sessions, chunk: float) -> None:
        self.farm, self.folder, self.sessions, self.chunk = farm, folder, sessions, chunk
        self.told: dict[str, Any] = {}
        self.only = ""

    def job(self, name: str, plate: Path, recipe: str, during: Callable[[str], Any] | None = None) -> None:
        """Submit, wait, look at the film; `during` is called with the job's id once chunks are rendered."""
        if self.only and self.only not in name:
            return
        begun = time.perf_counter()
        job = submit(self.farm, plate, recipe, self.chunk)
        states, did = [], None
        watching = Watching(self.farm.client, job.id)
        for event in self.farm.client.events(job.id):
            states.append((round(time.perf_counter() - begun, 2), event.kind))
            if during is not None and did is None:
                did = during(job.id)
        done = self.farm.client.job(job.id)
        seconds = time.perf_counter() - begun
        frames = len(scan_timeline(plate, probe(plate)))
        self.told[name] = {
            "state": done.state, "why": done.reason, "frames": frames, "seconds": round(seconds, 2),
            "fps": round(frames / seconds, 1), "did": did, "events": states[:6] + states[-4:],
            **self.records(job.id), "previews": watching.end(self.folder / f"{job.id}.jpg"),
            "film": film(self.farm, job, plate, self.folder) if done.state == "completed" else "",
        }  # fmt: skip
        print(name, json.dumps(self.told[name], default=str), flush=True)

    def records(self, job_id: str) -> dict[str, Any]:
        """By what chunks were rendered, and the seconds that the kinds of tasks took."""
        with self.sessions() as session:
            rows = attempts(session, job_id)
        renders = [row.environment or {} for row in rows if row.kind == "render"]
        spent: dict[str, float] = {}
        for row in rows:
            if row.ended_at is not None:
                spent[row.kind] = round(spent.get(row.kind, 0) + (row.ended_at - row.started_at).total_seconds(), 2)
        keys = ("back_end", "back_end_why", "decoder", "decoder_why", "encoders_fed", "batch", "batch_halved")
        return {
            "attempts": dict(Counter(f"{row.kind} {row.state}" for row in rows)), "seconds_by_kind": spent,
            "records": {key: dict(Counter(str(one.get(key)) for one in renders)) for key in keys},
            "networks": sorted(
                {f"{use['name']}: {use['actual']}" for one in renders for use in one.get("card_models", [])}
            ),
            "stages_fps": [one.get("stages_fps") for one in renders if one.get("stages_fps")][:4],
        }  # fmt: skip


class Watching:
    """Looks at the previews of a job's chunks twice a second, as somebody does before a page."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client, self._job = Client(client.url), job_id
        self._seen: dict[int, set[bytes]] = {}
        self._last = b""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            with suppress(FarmError):
                for chunk in range(len(self._client.chunks(self._job).items)):
                    if picture := self._client.picture(f"/jobs/{self._job}/chunks/{chunk}/preview"):
                        self._last = picture
                        self._seen.setdefault(chunk, set()).add(picture)

    def end(self, path: Path) -> dict[int, int]:
        """By chunk: how many different pictures were seen. The last is written to `path`."""
        self._over.set()
        self._thread.join()
        self._client.close()
        path.write_bytes(self._last)
        return {chunk: len(pictures) for chunk, pictures in sorted(self._seen.items())}


def submit(farm: Farm, plate: Path, recipe: str, chunk: float) -> Any:
    """Everybody on the plate becomes one person, delivered as H.264."""
    from farm.api.schemas import IdentityIn, JobIn

    settings = {"swap": {"fitted": False}} if recipe == "swap" else {"swap": {"mask": {"areas": ["face"]}}}
    options = JobIn(
        recipe=recipe, settings=settings, deliverables=("h264",), chunk_seconds=chunk,
        identities=(IdentityIn(label="in"),), mapping={"mode": "all", "identity": "in"},
    )  # fmt: skip
    return farm.client.submit(options, plate=plate, pictures={"in": [portrait_picture(IDENTITIES[1])]})


def film(farm: Farm, job: Any, plate: Path, folder: Path) -> str:
    """Whether the deliverable has every frame of the plate at its time."""
    path = farm.download(job, "h264", folder / f"{job.id}.mp4")
    facts, given = probe(path), probe(plate)
    base, own = given.video.time_base, facts.video.time_base
    times = [frame.pts * own for frame in read_plate(path, facts)]
    wanted = [int(pts) * base for pts in scan_timeline(plate, given).pts]
    same = [one - times[0] for one in times] == [one - wanted[0] for one in wanted]
    return f"{len(times)} of {len(wanted)} frames, {'each' if same else 'NOT each'} at its time"


def kill_a_slot(sessions: Sessions) -> Callable[[str], Any]:
    """Ends a Celery child with SIGKILL once two chunks are done; what was killed."""

    def during(job_id: str) -> Any:
        with sessions() as session:
            done = sum(1 for row in attempts(session, job_id) if row.kind == "render" and row.state == "done")
        if done < 2:
            return None
        children = [
            process for process in psutil.process_iter(["pid", "ppid", "cmdline"])
            if "farm.worker.app" in (process.info["cmdline"] or [])
        ]  # fmt: skip
        pids = {process.pid for process in children}
        slots = [process for process in children if process.info["ppid"] in pids]
        busy = max(slots, key=lambda process: sum(process.cpu_times()[:2]))
        os.kill(busy.pid, signal.SIGKILL)
        return f"SIGKILL to slot {busy.pid} of {len(slots)} after {done} chunks"

    return during


def footprints(sessions: Sessions) -> list[dict[str, Any]]:
    """What the worker has told the farm of the recipes' needs."""
    with sessions() as session:
        return [
            {"card": row.card, "needs_mb": row.needs_mb, "seen_mb": row.seen_mb, "batch": row.batch}
            for row in session.scalars(select(Footprint))
        ]


def memory_mib() -> int:
    """In use on the first card; 0 where there is none."""
    nvml = load_nvml()
    if nvml is None:
        return 0
    return int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0)).used) >> 20


def said(*argv: str, seconds: float = 20, env: dict[str, str] | None = None) -> str:
    """What a farm command prints within so many seconds."""
    command = [sys.executable, "-c", "from farm.cli import main; main()", *argv]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=seconds)[0]
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=10)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plate", type=Path, help="a 1080p plate to repeat instead of drawing one")
    parser.add_argument("--network", type=Path, help="an inswapper-like network; a tiny stand-in if left out")
    parser.add_argument("--seconds", type=float, default=120, help="of the long plate")
    parser.add_argument("--short", type=int, default=480, help="frames of the short plate")
    parser.add_argument("--chunk", type=float, default=10, help="seconds of a chunk")
    parser.add_argument("--jobs", default="", help="which jobs, by a word of their names; all if empty")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--back-end", default="auto")
    told = parser.parse_args()
    metrics = free_port()
    with tempfile.TemporaryDirectory(prefix="farm-card-") as place:
        folder, before = Path(place), memory_mib()
        folder.chmod(0o755)
        short, long_, killed = plates(told.plate, folder, told.short, told.seconds)
        with card_farm(folder, told.network, metrics, told.back_end) as farm:
            state = farm.local.state
            assert state is not None
            engine = make_engine(state.database_url, application="bench", pool_size=2)
            run = Run(farm, folder, make_sessions(engine), told.chunk)
            env = {**os.environ, "FARM_HOME": str(folder / "home"), "COLUMNS": "200"}
            run.only = told.jobs
            run.job("neural, slots just started", short, "swap-inswapper")
            run.job("neural", long_, "swap-inswapper")
            run.told["top"] = said("worker", "--top", seconds=4, env=env)
            run.told["metrics"] = requests.get(f"http://127.0.0.1:{metrics}/metrics", timeout=5).text.splitlines()
            run.job("neural, a slot killed", killed, "swap-inswapper", kill_a_slot(run.sessions))
            run.job("mesh-warp", own_copy(short, folder / "home"), "swap")
            run.told["workers"] = farm.client.workers().model_dump(mode="json")
            run.told["footprints"] = footprints(run.sessions)
            run.told["card_mib"] = {"before": before, "while": memory_mib()}
            engine.dispose()
        run.told["card_mib"]["after"] = memory_mib()
        run.told["plan"] = said("worker", "--plan", env=env)
        run.told["machine"] = machine()
        (told.out / "gpu_farm.json").write_text(json.dumps(run.told, indent=1, default=str))
    return 0


def plates(given: Path | None, folder: Path, frames: int, seconds: float) -> tuple[Path, Path, Path]:
    """A short plate, a long one, and another of half its length."""
    drawn = given or folder / "plate.mp4"
    if given is None:
        draw_plate(drawn)
    made = []
    for name, count in (("short", frames), ("long", int(seconds * 24)), ("half", int(seconds * 12))):
        path = folder / f"{name}.mp4"
        repeat(drawn, path, count)
        made.append(path)
    return made[0], made[1], made[2]


if __name__ == "__main__":
    sys.exit(main())
