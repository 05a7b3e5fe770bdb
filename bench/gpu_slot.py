"""One slot of the GPU benchmark, in a process of its own: says "ready", waits for "go", renders, tells what it took.

python -m bench.gpu_slot '{"variant": ..., "model": ..., "plate": ..., "keys": [...], "seconds": 20, ...}'
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_material import LOOKERS, identity, parts, render
from bench.gpu_stages import StageEvents
from farm.faces.cuda.device import CudaKernels, cupy
from farm.faces.cuda.look import CADENCE
from farm.faces.cuda.networks import CHOSEN
from farm.inference import providers as ep
from farm.inference.bound import open_bound
from farm.inference.buckets import Buckets
from farm.media import nvdec
from farm.worker.gpu_line import StageTimes
from farm.worker.gpu_render import GpuRender, everyone

WARM_FRAMES = 256


def main() -> None:
    told: dict[str, Any] = json.loads(sys.argv[1])
    nvdec.claim_primary_context()
    slot = render(
        told["variant"],
        Path(told["model"]),
        batch=told["batch"],
        lanes=told["lanes"],
        lookers=told.get("lookers", LOOKERS),
        cadence=told.get("cadence", CADENCE),
    )
    events = StageEvents(slot) if told.get("stages") else None
    drive(slot, told, None, frames=WARM_FRAMES)
    print(json.dumps({"ready": True, "vram_mib": vram_mib()}), flush=True)
    sys.stdin.readline()
    for run in range(told["runs"]):
        slot.times = StageTimes()
        slot.swapper.samples = slot.swapper.slots = 0
        if events is not None:
            events.start()
        made = drive(slot, told, told["seconds"])
        if events is not None:
            batches = slot.times.frames / told["batch"]
            made["stages_ms"] = {name: spent / batches for name, spent in events.milliseconds().items()}
        made["fill"] = slot.swapper.fill
        made["stages"] = slot.times.rates()
        made["providers"] = slot.record
        made["vram_mib"] = vram_mib()
        print(json.dumps(made), flush=True)
        if run + 1 < told["runs"]:
            sys.stdin.readline()


def drive(slot: GpuRender, told: dict[str, Any], seconds: float | None, frames: int | None = None) -> dict[str, Any]:
    """Render for `seconds` after the first batches came, or until `frames`; frames a second of that time."""
    batches = slot.run(
        Path(told["plate"]), told.get("decoder", nvdec.NVDEC), parts(told["keys"], told["lanes"]), everyone(identity())
    )
    done = faces = passed = 0
    start = None
    for batch in batches:
        passed += len(batch)
        if batch.found is not None:
            faces += len(batch.found)
        slot.pool.give_back(batch)
        if start is None:
            # The line is full once every lane had its turn.
            if passed >= (told["lanes"] + 4) * told["batch"]:
                start = time.perf_counter()
        else:
            done += len(batch)
        if (frames and passed >= frames) or (start and seconds and time.perf_counter() - start >= seconds):
            break
    taken = time.perf_counter() - (start or time.perf_counter())
    batches.close()
    return {"frames": done, "seconds": taken, "fps": done / taken if taken else 0.0, "faces": faces / max(passed, 1)}


def vram_mib() -> int:
    """What the whole card has in use, as this process sees it."""
    free, total = cupy().cuda.runtime.memGetInfo()
    return int((total - free) >> 20)


def network_alone(source: Path, name: str, batch: int, seconds: float, runs: int) -> list[float]:
    """Samples a second of a network by itself, at the same batch and settings, bound to the card's memory."""
    kernels = CudaKernels()
    network = open_bound(source, batch, requested=[ep.CUDA], stream=kernels.stream, name=name, tuning=CHOSEN)
    buckets = Buckets([network], batch, kernels.empty)
    with kernels.handle:
        for port in network.inputs:
            buckets.arrays[port.name][...] = cupy().random.random(port.shape, dtype=np.float32)
    for _ in range(10):
        buckets.run(batch)
    kernels.wait()
    rates = []
    for _ in range(runs):
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(4):
                buckets.run(batch)
            kernels.wait()
            done += 4
        rates.append(done * batch / (time.perf_counter() - start))
    return rates


if __name__ == "__main__":
    main()
