"""The card's neural swap against the network alone, the encoder alone and the peers' way: `make bench-gpu`.

Every measurement is a step that writes its numbers to a folder; the last step judges them, so that the bench can be run
in pieces on a machine that is only lent. Without a card every goal says so. Needs the `gpu` extra and `onnx`.

    python -m bench.gpu [--steps agreement,latent16,...] [--work DIR] [--pieces DIR] [--plate FILE] [--seconds 20]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.common import Goal, at_least, finish, noted, unmeasured
from farm.worker.devices import find_cards, load_nvml
from farm.worker.mps import Mps
from farm.worker.plan_slots import useful_slots

RUNS = 3
BATCH = 32
CHUNK = 720
"""Frames of a chunk in the line: thirty seconds, the longest that a job is cut into."""
BUSY_EVERY = 0.1
CHUNKS = (("speed", 5, 480), ("memory", 200, 48))
"""Chunks of so many frames: a few as long as a job's for the speed, many short ones for memory."""
GROWTH_MIB = 64
VARIANTS = ("latent16", "latent32", "simswap256")


class Bench:
    """Where things lie, and the long plate and networks once somebody asked for them."""

    def __init__(
        self,
        work: Path,
        pieces: Path,
        plate: Path | None,
        seconds: float,
        slots: tuple[int, ...],
        films: tuple[int, ...] = (),
    ) -> None:
        self.films = films
        self.work, self.pieces, self.seconds, self.slots = work, pieces, seconds, slots
        self._plate = plate
        work.mkdir(parents=True, exist_ok=True)
        pieces.mkdir(parents=True, exist_ok=True)

    def plate(self) -> Path:
        from bench.gpu_material import draw_plate

        path = self._plate or self.work / "plate.mp4"
        if not path.exists():
            draw_plate(path)
        return path

    def long(self) -> Path:
        from bench.gpu_material import repeat

        path = self.work / "long.mp4"
        if not path.exists():
            repeat(self.plate(), path, CHUNK + 60)
        return path

    def network(self, variant: str) -> Path:
        from bench.gpu_networks import SHAPES, build

        path = self.work / f"{variant}.onnx"
        if not path.exists():
            build(SHAPES[variant], path)
        return path

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


class Slots:
    """Slot processes beside each other, each with an order at a time."""

    def __init__(self, bench: Bench, count: int) -> None:
        self._bench, self._count = bench, count

    def __enter__(self) -> Slots:
        bench = self._bench
        told = json.dumps({"plate": str(bench.long()), "batch": BATCH, "frames": CHUNK})
        (card,) = find_cards(load_nvml())[:1]
        self._mps = Mps.start(card.uuid, self._count, bench.work / "mps")
        environment = {**os.environ, **self._mps.environment, "CUDA_VISIBLE_DEVICES": card.uuid}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.gpu_slot", told],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )
            for _ in range(self._count)
        ]  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._mps.stop()

    def ask(self, count: int, **order: Any) -> list[dict[str, Any]]:
        """The answers of the first `count` of them, which do it at the same time; "{}" in `to` is a slot's number."""
        asked = self._processes[:count]
        for number, process in enumerate(asked):
            own = {key: value.format(number) if key == "to" else value for key, value in order.items()}
            if process.stdin:
                process.stdin.write(json.dumps(own) + "\n")
                process.stdin.flush()
        return [_answer(process) for process in asked]

    def run(self, count: int) -> dict[str, Any]:
        """Median frames a second over the runs, of `count` slots together; busy and clock of the median sample."""
        totals, busy, clocks, last = [], [], [], []
        for _ in range(RUNS):
            with Busy() as card:
                last = self.ask(count, run=self._bench.seconds)
            totals.append(sum(slot["fps"] for slot in last))
            percent, clock = card.median()
            busy.append(percent)
            clocks.append(clock)
        return {
            "fps": statistics.median(totals), "runs": totals, "busy": statistics.median(busy),
            "sm_mhz": statistics.median(clocks), "slots": count, "mps": not self._mps.why, "slot": last[0],
        }  # fmt: skip


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise RuntimeError("A slot of the bench ended early; its own message stands above.")
    answer: dict[str, Any] = json.loads(line)
    return answer


def line(bench: Bench, variant: str) -> None:
    """A network alone, one slot with it, and several; what one takes by kind of work."""
    most = max(1, *bench.slots)
    with Slots(bench, most) as slots:
        model = str(bench.network(variant))
        (alone,) = slots.ask(1, alone=min(4.0, bench.seconds), model=model, runs=RUNS)
        opened = slots.ask(most, open=variant, model=model)
        told = {**alone, "opening_s": opened[0]["opening_s"], "one": slots.run(1)}
        (told["stages"],) = slots.ask(1, stages=min(5.0, bench.seconds))
        told["many"] = [slots.run(count) for count in bench.slots if count > 1]
        bench.keep(variant, told)


def mp4(bench: Bench) -> None:
    """The way to finished films, of one slot and of as many as a worker plans here, beside as many encoders alone."""
    most = useful_slots(os.cpu_count() or 1)
    with Slots(bench, most) as slots:
        slots.ask(most, open=VARIANTS[0], model=str(bench.network(VARIANTS[0])))
        told = []
        for count in bench.films or sorted({1, most}):
            taken: dict[str, list[float]] = {"alone": [], "fps": []}
            for _ in range(RUNS):
                for name, behind in (("alone", False), ("fps", True)):
                    films = slots.ask(count, mp4=bench.seconds, to=str(bench.work / "made-{}.mp4"), behind=behind)
                    taken[name].append(sum(film["fps"] for film in films))
                print(count, "films", {name: runs[-1] for name, runs in taken.items()}, flush=True)
            told.append(
                {"slots": count, "runs": taken, **{name: statistics.median(fps) for name, fps in taken.items()}}
            )
        bench.keep("mp4", {"by_slots": told})


def jobs(bench: Bench) -> None:
    """Chunks of a job in one slot: their speed, and the memory after many."""
    with Slots(bench, 1) as slots:
        slots.ask(1, open=VARIANTS[0], model=str(bench.network(VARIANTS[0])))
        for name, count, frames in CHUNKS:
            (told,) = slots.ask(1, chunks=count, frames=frames)
            bench.keep(f"chunks-{name}", told)


def peers(bench: Bench) -> None:
    from bench.gpu_material import identity
    from bench.gpu_peer import Peer, run
    from farm.resources import resource

    weights = Path(str(resource("models"))) / "weights"
    numbers = {}
    for variant in ("latent16", "latent32"):
        peer = Peer(weights, bench.network(variant), 128, identity())
        numbers[variant] = statistics.median(run(bench.long(), peer, bench.seconds / 2) for _ in range(RUNS))
    bench.keep("peers", numbers)


def agreement(bench: Bench) -> None:
    from bench.gpu_agreement import compare

    bench.keep("agreement", compare(bench.plate(), bench.network("latent16")))


STEPS: dict[str, Callable[[Bench], None]] = {
    "agreement": agreement,
    **{variant: partial(line, variant=variant) for variant in VARIANTS},
    "mp4": mp4,
    "jobs": jobs,
    "peers": peers,
}


def goals(bench: Bench) -> dict[str, Goal]:
    found: dict[str, Goal] = {}
    pieces = dict(zip(("light", "published", "simswap"), map(bench.kept, VARIANTS), strict=True))
    peers_, encoded, same = (bench.kept(name) for name in ("peers", "mp4", "agreement"))
    best = {name: _best(piece) for name, piece in pieces.items()}
    found["one_slot_light_fps"] = _least(pieces["light"].get("one", {}), "fps", 400)
    found["many_slots_light_fps"] = _least(best["light"], "fps", 1000)
    found["published_fps"] = _least(best["published"], "fps", 450, f"with {best['published'].get('slots', 0)} slots")
    for name, piece in pieces.items():
        told = best[name]
        share = {"share": told["fps"] / piece["alone"], "busy": told["busy"]} if piece else {}
        slots_ = f"with {told['slots']} slots" if piece else ""
        found[f"share_of_network_alone_{name}"] = _least(share, "share", 0.75, slots_)
        found[f"gpu_busy_percent_{name}"] = _least(share, "busy", 85, slots_)
        if piece:
            found[f"network_alone_{name}_fps"] = noted(piece["alone"], "the swap network by itself at the same batch")
            if name != "light":
                found[f"one_slot_{name}_fps"] = noted(piece["one"]["fps"], "one slot of the same run")
            found[f"best_{name}_fps"] = noted(told["fps"], slots_)
    found |= _of_films(encoded.get("by_slots", []))
    for name, variant in (("light", "latent16"), ("published", "latent32")):
        piece = pieces[name]
        ratio = {"times": best[name]["fps"] / peers_[variant]} if piece and peers_ else {}
        found[f"times_peers_way_{name}"] = _least(ratio, "times", 10, f"with {best[name].get('slots', 0)} slots")
        if ratio:
            found[f"one_slot_times_peers_way_{name}"] = noted(piece["one"]["fps"] / peers_[variant], "one slot")
    found |= _of_chunks(bench)
    found["psnr_inside_mask_db"] = _least(same, "psnr", 50)
    found["bits_changed_outside_mask"] = (
        Goal(same["outside"], "== 0", same["outside"] == 0) if same else unmeasured("== 0", _WHY)
    )
    return found


def _best(piece: dict[str, Any]) -> dict[str, Any]:
    """The run with the number of slots that is fastest."""
    runs: list[dict[str, Any]] = [piece["one"], *piece["many"]] if piece else []
    return max(runs, key=lambda run: float(run["fps"]), default={})


def _of_films(runs: list[dict[str, Any]]) -> dict[str, Goal]:
    """The most that slots bring to files, of the most that encoders bring alone, whatever their number."""
    share = {}
    if runs:
        best, alone = (max(runs, key=lambda run, key=key: run[key]) for key in ("fps", "alone"))
        share = {"share": best["fps"] / alone["alone"]}
        why = (
            f"{best['slots']} slots, {best['fps']:.0f} frames/s; {alone['slots']} encoders alone, {alone['alone']:.0f}"
        )
    found = {"mp4_share_of_x264_alone": _least(share, "share", 0.9, why if runs else "")}
    for run in runs:
        found[f"mp4_share_of_x264_alone_{run['slots']}"] = noted(
            run["fps"] / run["alone"],
            f"{run['slots']} beside as many encoders alone: {run['fps']:.0f} of {run['alone']:.0f}",
        )
    return found


def _of_chunks(bench: Bench) -> dict[str, Goal]:
    speed, memory = (bench.kept(f"chunks-{name}") for name, *_ in CHUNKS)
    growth = memory["last_mib"] - memory["settled_mib"] if memory else 0
    found = {
        "vram_growth_over_200_chunks_mib": Goal(growth, f"<= {GROWTH_MIB}", growth <= GROWTH_MIB)
        if memory
        else unmeasured(f"<= {GROWTH_MIB}", _WHY)
    }
    if speed:
        found["chunks_of_a_job_fps"] = noted(speed["fps"], "one slot, a chunk of 480 frames from its first to its last")
    return found


_WHY = "its step was not run, or there is no NVIDIA card with CuPy and onnxruntime-gpu here"


def _least(piece: dict[str, Any], key: str, bound: float, why: str = "") -> Goal:
    return at_least(piece[key], bound, why) if key in piece else unmeasured(f">= {bound}", _WHY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default=",".join(STEPS), help="which measurements, by comma; empty to judge only")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "facefarm-bench-gpu")
    parser.add_argument("--pieces", type=Path)
    parser.add_argument("--plate", type=Path, help="a 1080p plate to use instead of drawing one")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--slots", default="4,6", help="how many slots beside one are tried, by comma")
    parser.add_argument(
        "--films", default="", help="how many films are made at once, by comma; one and the plan's slots"
    )
    parser.add_argument("--results", type=Path, help="where the JSON line is kept instead of bench/results")
    told = parser.parse_args()
    slots = tuple(int(count) for count in told.slots.split(",") if count)
    films = tuple(int(count) for count in told.films.split(",") if count)
    bench = Bench(told.work, told.pieces or told.work / "pieces", told.plate, told.seconds, slots, films)
    card = find_cards(load_nvml())
    for name in filter(None, told.steps.split(",")) if card else ():
        start = time.perf_counter()
        STEPS[name](bench)
        print(f"{name} took {time.perf_counter() - start:.0f} s", flush=True)
    return finish("gpu", goals(bench), **({"results": told.results} if told.results else {}))


if __name__ == "__main__":
    sys.exit(main())
