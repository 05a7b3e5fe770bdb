"""make bench-faces: do the faces hold up? Every number that the goals name, on the generated plate and on real footage.

    python -m bench.faces [--seconds 24] [--only NAME ...]

The generated plate's truth comes with it. The real clip, talking_woman_hands.mp4, may not be kept in the project: the
folder that holds it is named by FARM_BENCH_MEDIA; without it those goals are null. Contact sheets go to bench/results/.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from bench import neural_speed
from bench.common import RESULTS, Goal, at_least, at_most, exactly, finish, noted, unmeasured
from bench.face_jobs import footage_identity, open_job
from bench.face_measures import FaceReader
from bench.face_runs import Digests, Hands, Identities, Likeness, Outside, Sheet, StillMarks, frames_a_second, watch
from bench.hand_keys import HANDS
from farm.inference.catalogue import Catalogue
from farm.inference.providers import CPU
from farm.inference.session import Models
from farm.inference.spec import LicenceClass
from farm.sample import Truth, generate, portrait_picture
from tests.stand_ins import stand_in_catalogue

CLIP = "talking_woman_hands.mp4"
PERFORMER = "single_face.mp4"
_NO_CLIP = f"needs {CLIP} in the folder that FARM_BENCH_MEDIA names"
Goals = dict[str, Goal]


class Bench:
    """The plates of one run, made once and shared by the sections."""

    def __init__(self, folder: Path, models: Models, seconds: float) -> None:
        self.models = models
        self.reader = FaceReader(models)
        self._folder = folder
        self._seconds = seconds
        media = os.environ.get("FARM_BENCH_MEDIA", "")
        self.clip = Path(media) / CLIP if media and (Path(media) / CLIP).is_file() else None
        self.performer = Path(media) / PERFORMER if media and (Path(media) / PERFORMER).is_file() else None

    def folder(self, name: str) -> Path:
        made = self._folder / name
        made.mkdir(exist_ok=True)
        return made

    def sample(self, name: str, **options: object) -> tuple[Path, Truth]:
        done = self._folder / f"{name}.truth.npz"
        if not done.exists():
            generate(self._folder, name=name, **{"seconds": self._seconds, **options})  # type: ignore[arg-type]
        return self._folder / f"{name}.mp4", Truth.load(done)


def real(bench: Bench) -> Goals:
    """Talking woman with hands, as the astronaut."""
    names = {
        "similarity": ">= 0.62",
        "similar_share": ">= 0.96",
        "original": "<= 0.28",
        "outside_samples_changed": "== 0",
        **{f"{what}_correlation": ">= 0.9" for what in ("yaw", "pitch", "roll", "mouth", "blink", "gaze")},
        "pose_error": "<= 2.0",
        "flicker": "<= 1.15",
        "hands_kept": ">= 0.95",
        "hands_kept_on_face": ">= 0.95",
        "chunk_frames_that_differ": "== 0",
    }
    if bench.clip is None:
        return {f"real_{name}": unmeasured(goal, _NO_CLIP) for name, goal in names.items()}
    job = open_job(bench.clip, bench.models, {"lead": "astronaut"})
    likeness = Likeness(bench.reader, job.identities["astronaut"].embedding)
    outside, hands, digests = Outside(), Hands(bench.reader), Digests()
    sheet = Sheet(RESULTS / "talking_faces.png", (*sorted(HANDS)[::3], 5, 250, 330, 420, 460))
    watch(job, likeness, outside, hands, digests, sheet)
    sheet.save()
    return {
        **_likeness("real", likeness),
        "real_outside_samples_changed": exactly(outside.changed, 0, f"{outside.frames} frames"),
        "real_hands_kept": at_least(float(np.mean(hands.whole)), 0.95, f"{len(hands.whole)} hand keys"),
        "real_hands_kept_on_face": at_least(
            float(np.mean(hands.on_face)), 0.95, "stricter: only the hand's pixels that lie over the face"
        ),
        "real_chunk_frames_that_differ": exactly(digests.differ(job), 0, "1 chunk against 12"),
    }


def generated(bench: Bench) -> Goals:
    """Both people of the generated plate changed into each other: one of them read closely, both judged by truth."""
    path, truth = bench.sample("sample")
    wanted = {"grace_hopper": "astronaut", "astronaut": "grace_hopper"}
    job = open_job(path, bench.models, wanted)
    likeness = Likeness(
        bench.reader, job.identities["astronaut"].embedding, truth=truth, person=truth.person("grace_hopper")
    )
    outside, digests = Outside(), Digests()
    identities = Identities(job, truth, {plate: _picture(name) for plate, name in wanted.items()})
    shots = (0.04, 0.15, 0.3, 0.35, 0.45, 0.6, 0.75, 0.95)
    sheet = Sheet(RESULTS / "sample_faces.png", tuple(int(share * len(truth)) for share in shots))
    watch(job, likeness, outside, digests, identities, sheet)
    sheet.save()
    return {
        **_likeness("sample", likeness),
        **_gaze("sample", likeness),
        "sample_outside_samples_changed": exactly(outside.changed, 0, f"{outside.frames} frames"),
        "sample_cast_members": exactly(len(job.cast.members), len(truth.identities)),
        "sample_chunk_frames_that_differ": exactly(digests.differ(job), 0, "1 chunk against 12"),
        "crossing_wrong_frames": exactly(identities.wrong, 0),
        **{
            f"crossing_as_wanted_{name}": at_least(score.as_wanted, 0.95, f"of {score.shown} frames that show it")
            for name, score in identities.judge.report().items()
        },
    }


def untouched(bench: Bench) -> Goals:
    """One of two people changed: the other one stays, sample for sample."""
    path, truth = bench.sample("sample")
    job = open_job(path, bench.models, {"grace_hopper": "astronaut"})
    result = Identities(job, truth, {"grace_hopper": _picture("astronaut")})
    watch(job, result)
    scores = result.judge.report()
    return {
        "one_mapped_as_wanted": at_least(scores["grace_hopper"].as_wanted, 0.95),
        "one_mapped_other_kept": at_least(scores["astronaut"].as_wanted, 0.95),
        "one_mapped_samples_changed_elsewhere": exactly(result.changed_elsewhere, 0),
        "one_mapped_wrong_frames": exactly(result.wrong, 0),
    }


def jitter(bench: Bench) -> Goals:
    """Heads that do not move, under grain."""
    path, truth = bench.sample("still", seconds=2, still=True, events=False)
    job = open_job(path, bench.models, {"grace_hopper": "astronaut", "astronaut": "grace_hopper"})
    marks = StillMarks(bench.reader, truth)
    watch(job, marks)
    plate, result = marks.pixels()
    return {"still_head_jitter_px": at_most(result, 0.3, f"720p; the plate itself: {plate:.3f}")}


def speed(bench: Bench) -> Goals:
    """Decode, render, encode."""
    goals: Goals = {}
    for name, size, bound in (("360p", (640, 360), 20), ("1080p", (1920, 1080), 8)):
        path, truth = bench.sample(f"speed{name}", seconds=4, size=size, people=1, events=False)
        job = open_job(path, bench.models, {"astronaut": "grace_hopper"})
        goals[f"speed_{name}_fps"] = at_least(frames_a_second(job, len(truth)), bound, "one face, x264, 2 threads")
    return goals


def footage(bench: Bench) -> Goals:
    """An identity made of a clip: a phone clip on the talking woman, and generated heads on the generated plate."""
    goals: Goals = {}
    if bench.clip is None or bench.performer is None:
        needed = f"needs {CLIP} and {PERFORMER} in the folder that FARM_BENCH_MEDIA names"
        goals |= {f"footage_{name}": unmeasured(goal, needed) for name, goal in _FOOTAGE.items()}
    else:
        goals |= _worn(bench, "footage", bench.clip, "lead", bench.performer, None)
    heads, _ = bench.sample("heads", seconds=4, size=(1920, 1080), people=1, events=False, seed=11)
    plate, truth = bench.sample("sample")
    return goals | _worn(bench, "footage_heads", plate, "grace_hopper", heads, truth, last=144)


_FOOTAGE = {
    "gaze_correlation": ">= 0.85",
    "mouth_correlation": ">= 0.85",
    "sharpness": ">= 0.8",
    "flicker": "<= 1.15",
    "chunk_frames_that_differ": "== 0",
}


def _worn(
    bench: Bench, prefix: str, plate: Path, who: str, clip: Path, truth: Truth | None, *, last: int | None = None
) -> Goals:
    made = footage_identity(clip, bench.models)
    job = open_job(plate, bench.models, {who: "performer"}, made={"performer": made})
    person = truth.person(who) if truth is not None else 0
    found = Likeness(bench.reader, made.embedding, truth=truth, person=person)
    digests = Digests()
    end = last or len(job.timeline)
    sheet = Sheet(
        RESULTS / f"{prefix}_faces.png", tuple(int(share * end) for share in (0.05, 0.2, 0.4, 0.6, 0.8, 0.95))
    )
    watch(job, found, digests, sheet, last=last)
    sheet.save()
    values = {
        "gaze_correlation": at_least(found.pairs.correlation("gaze"), 0.85, f"bank of {len(made.bank)} frames"),
        "mouth_correlation": at_least(found.pairs.correlation("mouth"), 0.85),
        "sharpness": at_least(found.sharpness_ratio, 0.8, "high-frequency energy over the plate's"),
        "flicker": at_most(found.flicker.ratio(), 1.15, "each with its own motion taken out"),
        "chunk_frames_that_differ": exactly(digests.differ(job, chunks=5, last=end), 0, "1 chunk against 5"),
        "similarity": noted(float(np.mean(found.to_identity)), "to the performer"),
        "original": noted(float(np.mean(found.to_original)), "to the person in the plate"),
    }
    by_truth = {} if truth is None else _gaze(prefix, found)
    return {**{f"{prefix}_{name}": goal for name, goal in values.items()}, **by_truth}


def neural(bench: Bench) -> Goals:
    """A neural swap against the peers' order of operations, both with the same networks."""
    path, _ = bench.sample("neural", seconds=3, size=(640, 360), people=1, events=False)
    shelf = bench.folder("stand-ins")
    deployment = stand_in_catalogue(shelf / "models", shelf / "home", [neural_speed.SWAPPER])
    with deployment.open_models(providers=[CPU], allowed_licences=list(LicenceClass)) as models:
        processor, clock = neural_speed.ratio(path, models, frames=48)
    return {
        "neural_speed_ratio": at_least(processor, 1.5, "processor time, 640x360, one face, hands kept in front"),
        "neural_speed_ratio_by_the_clock": noted(clock, "the same runs; a busy machine says less by the clock"),
    }


SECTIONS: dict[str, Callable[[Bench], Goals]] = {
    "real": real,
    "generated": generated,
    "untouched": untouched,
    "jitter": jitter,
    "footage": footage,
    "speed": speed,
    "neural": neural,
}


def _gaze(prefix: str, found: Likeness) -> Goals:
    """How well gaze can be read at all: what is measured between plate and result holds the noise of both readings."""
    plate, result = found.gaze_by_truth()
    return {
        f"{prefix}_gaze_read_in_plate": noted(plate, "correlation with the truth of the generated plate"),
        f"{prefix}_gaze_read_in_result": noted(result, "the same, of the result"),
    }


def _likeness(prefix: str, found: Likeness) -> Goals:
    similar = np.array(found.to_identity)
    goals = {
        "similarity": at_least(float(similar.mean()), 0.62),
        "similar_share": at_least(float(np.mean(similar >= 0.363)), 0.96),
        "original": at_most(float(np.mean(found.to_original)), 0.28),
        **{
            f"{what}_correlation": at_least(found.pairs.correlation(what), 0.9)
            for what in ("yaw", "pitch", "roll", "mouth", "blink", "gaze")
        },
        "pose_error": at_most(found.pairs.pose_error(), 2.0, "degrees, mean of yaw, pitch, roll"),
        "flicker": at_most(found.flicker.ratio(), 1.15, "each with its own motion taken out"),
        "swim": noted(found.flicker.swim(), "flicker with the plate's motion taken out of both"),
        "sharpness": noted(found.sharpness_ratio, "high-frequency energy over the plate's"),
    }
    return {f"{prefix}_{name}": goal for name, goal in goals.items()}


def _picture(name: str) -> np.ndarray:
    picture = cv2.imread(str(portrait_picture(name)))
    assert picture is not None
    return picture


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.faces", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=24, help="length of the generated plate")
    parser.add_argument("--only", nargs="+", choices=sorted(SECTIONS), help="sections to run; no result is kept")
    arguments = parser.parse_args()
    goals: Goals = {}
    with tempfile.TemporaryDirectory() as folder, Models(Catalogue.load(), threads=1) as models:
        bench = Bench(Path(folder), models, arguments.seconds)
        for name, section in SECTIONS.items():
            if arguments.only is None or name in arguments.only:
                print(f"{name}: {(section.__doc__ or name).splitlines()[0]}", file=sys.stderr, flush=True)
                goals.update(section(bench))
        if arguments.only is not None:
            return finish("faces", goals, results=Path(folder))
        return finish("faces", goals)


if __name__ == "__main__":
    sys.exit(main())
