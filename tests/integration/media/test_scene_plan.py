"""Chunks end where scenes begin when the recipe remembers from frame to frame: through the plan task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate, islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from farm.chunker.scenes import SceneFinder
from farm.db.enums import TaskKind
from farm.jobs.request import PlateRef
from farm.jobs.wire import ChunkPlan, Claim, JobSpec, Lease
from farm.media.peek import Peeker
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import scan_frames
from farm.recipe import Recipe, preset
from farm.settings import Settings
from farm.store.memory import MemoryStore
from farm.worker.task import TaskContext
from farm.worker.tasks.plan import plan
from tests.media_factory import MediaFactory, ffmpeg

RATE = 12
SCENES = (190, 60, 160, 130, 220, 95, 205)
"""Frames of each scene; the sums are the cuts. The first window, 10 to 30 s, holds the first three."""
CUTS = list(accumulate(SCENES))[:-1]
CODECS = {
    "keys at cuts.mp4": ["-c:v", "libx264", "-preset", "veryfast"],
    "keys at random.mp4": ["-c:v", "libx264", "-preset", "veryfast", "-g", "50", "-sc_threshold", "0"],
    "broadcast.ts": ["-c:v", "mpeg2video", "-b:v", "1M", "-g", "12", "-sc_threshold", "1000000000", "-bf", "2"],
    "intra.avi": ["-c:v", "mjpeg", "-q:v", "5"],
}


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaFactory:
    return MediaFactory(tmp_path_factory.mktemp("scenes"))


def film(media: MediaFactory, name: str) -> Path:
    """A plate of several scenes, each a moving picture in another light."""
    path = media.folder / name
    if not path.exists():
        inputs: list[str] = []
        graph = ""
        for number, frames in enumerate(SCENES):
            source = "testsrc2" if number % 2 else "mandelbrot"
            inputs += ["-f", "lavfi", "-i", f"{source}=size=160x90:rate={RATE}"]
            hue = f"hue=h={number * 75}:b={(number % 3) * 2 - 2}"
            graph += f"[{number}:v]trim=end_frame={frames},setsar=1,{hue},format=yuv420p[s{number}];"
        graph += "".join(f"[s{number}]" for number in range(len(SCENES))) + f"concat=n={len(SCENES)}[v]"
        ffmpeg(*inputs, "-filter_complex", graph, "-map", "[v]", *CODECS[name], str(path))
    return path


class Hands:
    """Notes what a plan task publishes."""

    def __init__(self) -> None:
        self.chunks: list[ChunkPlan] = []

    def publish_plate(self, *_: Any, **__: Any) -> None: ...
    def publish_timeline(self, *_: Any, **__: Any) -> None: ...

    def publish_chunk(self, lease: Lease, chunk: ChunkPlan, codecs: Sequence[str]) -> None:
        self.chunks.append(chunk)


def planned(plate: Path, recipe: Recipe, folder: Path) -> list[tuple[int, int]]:
    """The chunks that the plan task publishes for a job of this plate."""
    store, hands = MemoryStore(), Hands()
    kept = store.put_file("plate", plate)
    lease = Lease(
        token="t", job_id="j", task_id="t", attempt_id="a", until=datetime.now(UTC), seconds=9, heartbeat_seconds=3
    )
    job = JobSpec(
        id="j",
        project="p",
        recipe=recipe,
        deliverables=("h264",),
        options={},
        chunk_seconds=20.0,
        plate=PlateRef(object_key="plate", sha256=kept.sha256),
        identities=(),
        mapping_request=None,
        needs_cast=False,
        consent=None,
        permit=None,
    )
    claim = Claim(lease=lease, kind=TaskKind.PLAN, position=0, number=1, shrunk=0, job=job)
    still = SimpleNamespace(progress=lambda *_: None, check=lambda: None)
    context = TaskContext(claim, cast(Any, hands), store, cast(Any, None), folder, cast(Any, still), Settings())
    plan(context)
    return [(chunk.first, chunk.last) for chunk in hands.chunks]


@pytest.mark.parametrize("name", CODECS)
def test_chunks_of_a_recipe_with_memory_end_at_scene_cuts(media: MediaFactory, tmp_path: Path, name: str) -> None:
    plate = film(media, name)

    found = planned(plate, preset("swap"), tmp_path)

    assert found[0][0] == 0
    assert found[-1][1] == sum(SCENES)
    assert all(a[1] == b[0] for a, b in pairwise(found))
    assert all(10 * RATE <= last - first <= 30 * RATE for first, last in found)
    at_cuts = {last for _, last in found[:-1]} & set(CUTS)
    # Where every packet is a key frame, cuts show only in how large the packets are, so some are not seen.
    assert len(at_cuts) >= (1 if name == "intra.avi" else len(found) - 1)


def test_a_recipe_without_memory_is_cut_for_balance(media: MediaFactory, tmp_path: Path) -> None:
    found = planned(film(media, "intra.avi"), preset("passthrough"), tmp_path)

    assert [last - first for first, last in found[:2]] == [20 * RATE, 20 * RATE]


def test_a_film_of_one_scene_has_no_cut(media: MediaFactory) -> None:
    plate = media.make_custom(
        ".mp4", "-f", "lavfi", "-i", f"testsrc2=size=160x90:rate={RATE}:duration=60", "-c:v", "libx264", "-bf", "2"
    )
    facts = probe(plate)
    finder = SceneFinder(plate, facts, list(scan_frames(plate, facts)))

    assert finder.within(120, 360) == []
    finder.close()


def test_a_place_between_like_key_frames_is_not_decoded(media: MediaFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    plate = film(media, "keys at cuts.mp4")
    facts = probe(plate)
    finder = SceneFinder(plate, facts, list(scan_frames(plate, facts)))
    looked: list[dict[int, int]] = []
    real = finder._peeker.look

    def noted(start: int, wanted: dict[int, int], *, most: int) -> Any:
        looked.append(wanted)
        return real(start, wanted, most=most)

    monkeypatch.setattr(finder._peeker, "look", noted)
    monkeypatch.setattr("farm.chunker.scenes.likely_cuts", lambda frames, low, high: [low + 5])

    assert finder.within(CUTS[1] - 5, CUTS[1] + 50) == [CUTS[1]]
    assert len(looked) == 1
    key = max(n for n, frame in enumerate(finder._frames[: CUTS[0]]) if frame.key)
    assert finder.within(key + 20, key + 60) == []
    assert len(looked) <= 2
    finder.close()


@pytest.mark.parametrize("name", CODECS)
def test_a_key_frame_by_itself_is_the_one_of_a_plain_decode(media: MediaFactory, name: str) -> None:
    plate = film(media, name)
    facts = probe(plate)
    frames = list(scan_frames(plate, facts))
    key = [n for n, frame in enumerate(frames) if frame.key][3]
    peeker, rough = Peeker(plate, facts), Peeker(plate, facts, rough=True)

    found, again = peeker.key(frames[key].pts, key), rough.key(frames[key].pts, key)

    assert found is not None
    assert again is not None
    assert peeker.key(frames[-1].pts + 10 * RATE, key) is None
    wanted = next(islice(read_plate(plate, facts), key, None))
    assert [p.tobytes() for p in found.planes] == [p.tobytes() for p in wanted.planes]
    assert (found.index, again.pts) == (key, wanted.pts)
    peeker.close()
    rough.close()
