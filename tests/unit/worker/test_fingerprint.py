"""What a chunk's fingerprint depends on, and what is taken over."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from farm.inference.catalogue import Catalogue
from farm.jobs.reuse import Reusable
from farm.jobs.wire import ChunkTask, ObjectOut
from farm.recipe import preset, tuned
from farm.store import keys
from farm.store.base import ObjectInfo
from farm.store.memory import MemoryStore
from farm.worker import fingerprint as module
from farm.worker.fingerprint import fingerprint, taken_over

SHA = "1" * 64
CATALOGUE = Catalogue.load()


def make(tmp_path: Path, **changes: Any) -> str:
    """The fingerprint of a made-up chunk of a swap, with some of what it is made of changed."""
    store = MemoryStore()
    store.put_bytes("jobs/j/cast", changes.get("cast", b"cast"))
    picture = SimpleNamespace(sha256=changes.get("picture", "2" * 64))
    job = SimpleNamespace(
        plate=SimpleNamespace(sha256=changes.get("plate", SHA)),
        identities=(SimpleNamespace(label="hero", face=None, pictures=(picture,)),),
        options={},
    )
    mapping = {"mode": changes.get("mode", "lead")}
    claim = SimpleNamespace(job=job, cast_key="jobs/j/cast", mapping=mapping)
    context: Any = SimpleNamespace(claim=claim, store=store)
    chunk = ChunkTask(
        position=changes.get("position", 0),
        first=changes.get("first", 0),
        last=24,
        seconds=1,
        segment_key="s",
        segment_sha256=SHA,
        segment_size=1,
        plan={"before": 2, "after": 1, "encoders": changes.get("encoders", {"ffv1": {"encoder": "ffv1"}})},
    )
    permit: Any = SimpleNamespace(consent_level="A0", grant_sha256=changes.get("grant"), clean_master=False)
    pts = np.arange(24, dtype=np.int64) * changes.get("step", 512)
    timeline: Any = SimpleNamespace(pts=pts, time_base=Fraction(1, 12288))
    recipe = tuned(preset("swap"), changes.get("settings", {}))
    return fingerprint(context, chunk, timeline, recipe, CATALOGUE, permit, labelled=changes.get("labelled", True))


@pytest.mark.parametrize(
    "change",
    [
        {"plate": "3" * 64},
        {"picture": "3" * 64},
        {"cast": b"another"},
        {"mode": "all"},
        {"first": 1},
        {"step": 513},
        {"settings": {"swap": {"strength": 0.5}}},
        {"encoders": {"h264": {"encoder": "libx264"}}},
        {"grant": "4" * 64},
        {"labelled": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_the_result_changes_the_fingerprint(tmp_path: Path, change: dict[str, Any]) -> None:
    assert make(tmp_path) == make(tmp_path)
    assert make(tmp_path, **change) != make(tmp_path)


def test_where_the_chunk_stands_in_its_job_does_not(tmp_path: Path) -> None:
    assert make(tmp_path, position=3) == make(tmp_path)


def test_other_code_makes_another_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = make(tmp_path)
    monkeypatch.setattr(module, "code_version", lambda: "other")
    assert make(tmp_path) != before


def test_the_code_that_counts_holds_the_cards_kernels_and_libraries_that_are_asked_for() -> None:
    root = Path(module.farm.__file__).parent
    assert {path for path in root.rglob("*") if path.suffix in (".cu", ".cuh")} <= set(module.sources())
    asked = (root.parent / "pyproject.toml").read_text()
    assert [name for name in module._LIBRARIES if f'"{name}>' not in asked] == []


def test_other_weights_make_another_fingerprint() -> None:
    recipe = preset("swap")
    names = set(module.model_hashes(recipe, CATALOGUE))
    assert names == {spec.name for spec in CATALOGUE if spec.bundled} | {"mesh-warp"}
    assert "inswapper-128" in module.model_hashes(preset("swap-inswapper"), CATALOGUE)


def taking(tmp_path: Path, store: MemoryStore, sha256: str) -> Any:
    def stored(info: ObjectInfo, facts: dict[str, object]) -> ObjectOut:
        return ObjectOut(key=info.key, sha256=info.sha256, size=info.size, facts=facts)

    context: Any = SimpleNamespace(
        claim=SimpleNamespace(job=SimpleNamespace(deliverables=("ffv1",))),
        folder=tmp_path,
        heartbeat=SimpleNamespace(check=lambda: None),
        store=store,
        job_id="j2",
        lease=SimpleNamespace(attempt_id="a2"),
        stored=stored,
    )
    chunk: Any = SimpleNamespace(position=3, first=0, last=24)
    out = ObjectOut(key=keys.chunk_result("j1", 0, "a1", "ffv1"), sha256=sha256, size=6, facts={"frames": 24})
    found = Reusable(job_id="j1", position=0, attempt_id="a1", outputs={"ffv1": out}, report={"frames": 24})
    return taken_over(context, chunk, found, "d" * 64)


def test_a_result_is_copied_and_said_in_the_record(tmp_path: Path) -> None:
    store = MemoryStore()
    info = store.put_bytes(keys.chunk_result("j1", 0, "a1", "ffv1"), b"result")
    result = taking(tmp_path, store, info.sha256)
    key = keys.chunk_result("j2", 3, "a2", "ffv1")
    assert result.outputs["ffv1"].key == key
    assert store.get_bytes(key) == b"result"
    assert result.outputs["ffv1"].facts == {"frames": 24}
    assert result.environment["reused"] == {"job": "j1", "chunk": 0, "attempt": "a1"}


@pytest.mark.parametrize("there", [True, False])
def test_a_result_that_is_another_by_now_or_gone_is_not_taken(tmp_path: Path, there: bool) -> None:
    store = MemoryStore()
    if there:
        store.put_bytes(keys.chunk_result("j1", 0, "a1", "ffv1"), b"tampered")
    assert taking(tmp_path, store, "5" * 64) is None
    assert list(store.list("jobs/j2/")) == []


def test_every_model_of_a_recipe_counts_also_its_detector_and_its_masks() -> None:
    mask = {"occluders": ["xseg-1"], "region_model": "bisenet-resnet-34"}
    settings = {"detect": {"model": "scrfd-2.5g"}, "swap": {"mask": mask}}
    named = set(module.model_hashes(tuned(preset("swap-inswapper"), settings), CATALOGUE))
    assert named >= {"inswapper-128", "arcface-w600k-r50", "scrfd-2.5g", "xseg-1", "bisenet-resnet-34", "sface"}
    assert not named & {"xseg-2", "retinaface-10g"}
