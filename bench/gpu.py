"""The card's neural swap against the network alone, the encoder alone and the peers' way: `make bench-gpu`.

Every measurement is a step that writes its numbers to a folder; the last step judges them, so that the bench can be run
in pieces on a machine that is only lent. Without a card every goal says so. Needs the `gpu` extra and `onnx`.

    python -m bench.gpu [--steps agreement,speeds,...] [--work DIR] [--pieces DIR] [--plate FILE] [--seconds 20]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.common import Goal, at_least, finish, noted, unmeasured
from farm.worker.devices import find_cards, load_nvml

RUNS = 3
BATCH = 32
LANES = 4
BUSY_EVERY = 0.1
ROUNDS = ((5, 480), (200, 48))
"""Chunks of so many frames: a few as long as a job's for the speed, many short ones for memory."""
GROWTH_MIB = 64


class Bench:
    """Where things lie, and the long plate and networks once somebody asked for them."""

    def __init__(self, work: Path, pieces: Path, plate: Path | None, seconds: float, slots: int) -> None:
        self.work, self.pieces, self.seconds, self.slots = work, pieces, seconds, slots
        self._plate = plate
        self._keys: list[int] | None = None
        work.mkdir(parents=True, exist_ok=True)
        pieces.mkdir(parents=True, exist_ok=True)

    def plate(self) -> Path:
        from bench.gpu_material import draw_plate

        path = self._plate or self.work / "plate.mp4"
        if not path.exists():
            draw_plate(path)
        return path

    def long(self) -> tuple[Path, list[int]]:
        from bench.gpu_material import repeat

        path = self.work / "long.mp4"
        if self._keys is None:
            self._keys = repeat(self.plate(), path, round(2500 * (self.seconds + 2)))
        return path, self._keys

    def network(self, variant: str) -> Path:
        from bench.gpu_networks import SHAPES, build

        path = self.work / f"{variant}.onnx"
        if not path.exists():
            build(SHAPES[variant], path)
        return path

    def told(self, variant: str, *, lanes: int = LANES, runs: int = RUNS, seconds: float | None = None) -> str:
        plate, keys = self.long()
        return json.dumps(
            {
                "variant": variant, "model": str(self.network(variant)), "plate": str(plate), "keys": keys,
                "batch": BATCH, "lanes": lanes, "runs": runs, "seconds": seconds or self.seconds,
            }
        )  # fmt: skip

    def keep(self, name: str, numbers: dict[str, Any]) -> None:
        (self.pieces / f"{name}.json").write_text(json.dumps(numbers))
        print(name, json.dumps(numbers), flush=True)

    def kept(self, name: str) -> dict[str, Any]:
        path = self.pieces / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}


class Busy:
    """How much of the time the card ran something, sampled by its driver, and the clock it ran at."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, int]] = []
        self._stop = threading.Event()

    def __enter__(self) -> Busy:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not self._stop.wait(BUSY_EVERY):
            rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
            self._samples.append((rates.gpu, pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)))

    def median(self) -> tuple[float, float]:
        """Percent and MHz."""
        busy, clock = zip(*self._samples, strict=True)
        return statistics.median(busy), statistics.median(clock)


@contextmanager
def slots(bench: Bench, variant: str, count: int, **told: Any) -> Iterator[list[subprocess.Popen[str]]]:
    """Slot processes, warm and waiting."""
    command = [sys.executable, "-m", "bench.gpu_slot", bench.told(variant, **told)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        for process in processes:
            _answer(process)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError("A slot of the bench ended early; its own message stands above.")
    return json.loads(line)


def render_runs(bench: Bench, variant: str, count: int, **told: Any) -> dict[str, Any]:
    """Median frames a second over the runs, of all slots together; busy and clock of the median sample."""
    totals, busy, clocks, last = [], [], [], []
    with slots(bench, variant, count, **told) as processes:
        for _ in range(told.get("runs", RUNS)):
            with Busy() as card:
                for process in processes:
                    if process.stdin:
                        process.stdin.write("go\n")
                        process.stdin.flush()
                last = [_answer(process) for process in processes]
            totals.append(sum(slot["fps"] for slot in last))
            percent, clock = card.median()
            busy.append(percent)
            clocks.append(clock)
    return {
        "fps": statistics.median(totals), "runs": totals, "busy": statistics.median(busy),
        "sm_mhz": statistics.median(clocks), "slots": count, "slot": last[0],
    }  # fmt: skip


def alone(bench: Bench, variant: str) -> float:
    code = (
        "import sys; from pathlib import Path; from bench.gpu_slot import network_alone;"
        "from farm.media.nvdec import claim_primary_context; claim_primary_context();"
        f"print(*network_alone(Path(sys.argv[1]), 'swapper', {BATCH}, 4.0, {RUNS}))"
    )
    command = [sys.executable, "-c", code, str(bench.network(variant))]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return statistics.median(float(rate) for rate in told.split())


def speeds(bench: Bench, variant: str) -> None:
    faces = alone(bench, variant)
    bench.keep(variant, {**render_runs(bench, variant, 1), "alone": faces})


def many(bench: Bench) -> None:
    bench.keep("many", render_runs(bench, "latent16", bench.slots, lanes=2))


def peers(bench: Bench) -> None:
    from bench.gpu_material import identity
    from bench.gpu_peer import Peer, run
    from farm.resources import resource

    weights = Path(str(resource("models"))) / "weights"
    numbers = {}
    for variant in ("latent16", "latent32"):
        peer = Peer(weights, bench.network(variant), 128, identity())
        numbers[variant] = statistics.median(run(bench.long()[0], peer, bench.seconds / 2) for _ in range(RUNS))
    bench.keep("peers", numbers)


def mp4(bench: Bench) -> None:
    from bench.gpu_encode import ToMp4, encoder_alone

    plate, _ = bench.long()
    told = json.loads(bench.told("latent16", lanes=1))
    card = ToMp4(told)
    both = [(encoder_alone(plate, bench.work / "alone.mp4", bench.seconds),
             card.run(bench.work / "made.mp4", bench.seconds)) for _ in range(RUNS)]  # fmt: skip
    bench.keep("mp4", {"alone": statistics.median(a for a, _ in both), "fps": statistics.median(b for _, b in both)})


def agreement(bench: Bench) -> None:
    from bench.gpu_agreement import compare

    bench.keep("agreement", compare(bench.plate(), bench.network("latent16")))


def chunks(bench: Bench) -> None:
    from bench.gpu_material import repeat

    plate = bench.work / "chunk.mp4"
    repeat(bench.plate(), plate, ROUNDS[0][1] + 60)
    told = {"plate": str(plate), "model": str(bench.network("latent16")), "variant": "latent16"}
    told |= {"batch": BATCH, "rounds": ROUNDS}
    command = [sys.executable, "-m", "bench.gpu_chunks", json.dumps(told)]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    bench.keep("chunks", json.loads(made.splitlines()[-1]))


STEPS: dict[str, Callable[[Bench], None]] = {
    "agreement": agreement,
    "latent16": lambda bench: speeds(bench, "latent16"),
    "latent32": lambda bench: speeds(bench, "latent32"),
    "simswap256": lambda bench: speeds(bench, "simswap256"),
    "many": many,
    "mp4": mp4,
    "peers": peers,
    "chunks": chunks,
}


def goals(bench: Bench) -> dict[str, Goal]:
    found: dict[str, Goal] = {}
    light, full, large = (bench.kept(name) for name in ("latent16", "latent32", "simswap256"))
    many_, peers_, encoded, same = (bench.kept(name) for name in ("many", "peers", "mp4", "agreement"))
    found["one_slot_light_fps"] = _least(light, "fps", 400)
    found["many_slots_light_fps"] = _least(many_ if many_.get("fps", 0) > light.get("fps", 0) else light, "fps", 1000)
    found["one_slot_published_fps"] = _least(full, "fps", 450)
    for name, piece in (("light", light), ("published", full), ("simswap", large)):
        share = {"share": piece["fps"] / piece["alone"], "busy": piece["busy"]} if piece else {}
        found[f"share_of_network_alone_{name}"] = _least(share, "share", 0.75)
        found[f"gpu_busy_percent_{name}"] = _least(share, "busy", 85)
        if piece:
            found[f"network_alone_{name}_fps"] = noted(piece["alone"], "the swap network by itself at the same batch")
    if large:
        found["one_slot_simswap_fps"] = noted(large["fps"], "no goal of its own")
    found["mp4_share_of_x264_alone"] = _least(
        {"share": encoded["fps"] / encoded["alone"]} if encoded else {}, "share", 0.9
    )
    for name, piece in (("light", light), ("published", full)):
        variant = "latent16" if name == "light" else "latent32"
        ratio = {"times": piece["fps"] / peers_[variant]} if piece and peers_ else {}
        found[f"times_peers_way_{name}"] = _least(ratio, "times", 10)
    jobs = bench.kept("chunks")
    speed, memory = jobs["rounds"] if jobs else ({}, {})
    growth = memory["last_mib"] - memory["settled_mib"] if jobs else 0
    found["vram_growth_over_200_chunks_mib"] = (
        Goal(growth, f"<= {GROWTH_MIB}", growth <= GROWTH_MIB) if jobs else unmeasured(f"<= {GROWTH_MIB}", _WHY)
    )
    if jobs:
        found["chunks_of_a_job_fps"] = noted(speed["fps"], "tracking, mapping, label and fetching the frames included")
    found["psnr_inside_mask_db"] = _least(same, "psnr", 50)
    found["bits_changed_outside_mask"] = (
        Goal(same["outside"], "== 0", same["outside"] == 0) if same else unmeasured("== 0", _WHY)
    )
    return found


_WHY = "no NVIDIA card with CuPy and onnxruntime-gpu here"


def _least(piece: dict[str, Any], key: str, bound: float) -> Goal:
    return at_least(piece[key], bound) if key in piece else unmeasured(f">= {bound}", _WHY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default=",".join(STEPS), help="which measurements, by comma; empty to judge only")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "facefarm-bench-gpu")
    parser.add_argument("--pieces", type=Path)
    parser.add_argument("--plate", type=Path, help="a 1080p plate to use instead of drawing one")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--results", type=Path, help="where the JSON line is kept instead of bench/results")
    told = parser.parse_args()
    bench = Bench(told.work, told.pieces or told.work / "pieces", told.plate, told.seconds, told.slots)
    card = find_cards(load_nvml())
    for name in filter(None, told.steps.split(",")) if card else ():
        start = time.perf_counter()
        STEPS[name](bench)
        print(f"{name} took {time.perf_counter() - start:.0f} s", flush=True)
    return finish("gpu", goals(bench), **({"results": told.results} if told.results else {}))


if __name__ == "__main__":
    sys.exit(main())
