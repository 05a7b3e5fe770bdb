from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from farm.errors import InfrastructureError, RecipeError
from farm.inference.engine_builder import main, tensorrt_profile
from farm.inference.engines import EngineCache, EngineKey, Profile, engine_key
from farm.inference.providers import CPU, TENSORRT, TENSORRT_RTX
from farm.store.memory import MemoryStore

PROFILE = Profile((1, 3, 128, 128), (8, 3, 128, 128), (32, 3, 128, 128))
KEY = EngineKey(
    model_sha256="a" * 64,
    provider=TENSORRT,
    precision="fp16",
    gpu="NVIDIA L4, 8.9",
    versions={"onnxruntime": "1.31.1", "tensorrt": "10.14", "cuda": "13.0", "driver": "580.1"},
    shapes={"target": PROFILE},
)
OTHERS = [
    replace(KEY, model_sha256="b" * 64),
    replace(KEY, provider=TENSORRT_RTX),
    replace(KEY, precision="fp32"),
    replace(KEY, gpu="NVIDIA L40S, 8.9"),
    replace(KEY, versions={**KEY.versions, "driver": "590.1"}),
    replace(KEY, shapes={"target": replace(PROFILE, most=(64, 3, 128, 128))}),
]


def builder(content: bytes, built: list[str] | None = None):
    def build(out: Path) -> None:
        (out / "engine.plan").write_bytes(content)
        if built is not None:
            built.append(out.name)

    return build


def test_every_difference_makes_another_engine() -> None:
    digests = {key.digest() for key in (KEY, *OTHERS)}
    assert len(digests) == len(OTHERS) + 1
    assert replace(KEY, versions=dict(reversed(KEY.versions.items()))).digest() == KEY.digest()


def test_two_swappers_of_equal_graph_never_share_an_engine(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path)
    first = cache.ensure(KEY, builder(b"weights a"))
    second = cache.ensure(OTHERS[0], builder(b"weights b"))
    assert first != second
    assert (first / "engine.plan").read_bytes() == b"weights a"
    assert (second / "engine.plan").read_bytes() == b"weights b"


def test_an_engine_is_built_once_and_the_states_are_said(tmp_path: Path) -> None:
    built: list[str] = []
    states: list[str] = []
    cache = EngineCache(tmp_path)
    for _ in range(2):
        cache.ensure(KEY, builder(b"x", built), beat=states.append)
    assert len(built) == 1
    assert states == ["building engine"]


def test_another_machine_takes_the_engine_from_the_store(tmp_path: Path) -> None:
    shelf = MemoryStore()
    EngineCache(tmp_path / "one", shelf=shelf).ensure(KEY, builder(b"x"))
    found = EngineCache(tmp_path / "two", shelf=shelf).get(KEY)
    assert found is not None
    assert (found / "engine.plan").read_bytes() == b"x"
    assert EngineCache(tmp_path / "two", shelf=shelf).get(OTHERS[0]) is None


def spoil(place: Path, how: str) -> None:
    manifest = place / "manifest.json"
    if how == "bytes":
        (place / "engine.plan").write_bytes(b"y")
    elif how == "missing":
        (place / "engine.plan").unlink()
    elif how == "no manifest":
        manifest.unlink()
    elif how == "broken manifest":
        manifest.write_text("[]")
    else:
        manifest.write_text(manifest.read_text().replace("a" * 64, "b" * 64))


@pytest.mark.parametrize("how", ["bytes", "missing", "no manifest", "broken manifest", "another key"])
def test_a_damaged_or_foreign_engine_is_built_again(tmp_path: Path, how: str) -> None:
    built: list[str] = []
    cache = EngineCache(tmp_path)
    spoil(cache.ensure(KEY, builder(b"x", built)), how)
    assert cache.get(KEY) is None
    assert (cache.ensure(KEY, builder(b"x", built)) / "engine.plan").read_bytes() == b"x"
    assert len(built) == 2


def test_an_engine_that_someone_put_under_a_foreign_name_is_not_taken(tmp_path: Path) -> None:
    shelf = MemoryStore()
    EngineCache(tmp_path / "one", shelf=shelf).ensure(KEY, builder(b"x"))
    shelf.put_bytes(engine_key(OTHERS[0].digest()), shelf.get_bytes(engine_key(KEY.digest())))
    shelf.put_bytes(engine_key(OTHERS[1].digest()), b"no archive at all")
    cache = EngineCache(tmp_path / "two", shelf=shelf)
    assert cache.get(OTHERS[0]) is None
    assert cache.get(OTHERS[1]) is None


def test_a_build_that_fails_or_leaves_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path)

    def fail(out: Path) -> None:
        (out / "half").write_bytes(b"x")
        raise RecipeError("no")

    with pytest.raises(RecipeError, match="no"):
        cache.ensure(KEY, fail)
    with pytest.raises(InfrastructureError, match="left no files"):
        cache.ensure(KEY, lambda out: None)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_profiles_are_written_as_onnx_runtime_reads_them() -> None:
    shapes = {
        "target": {"least": [1, 3, 8, 8], "usual": [4, 3, 8, 8], "most": [9, 3, 8, 8]},
        "source": {"least": [1, 512], "usual": [4, 512], "most": [9, 512]},
    }
    assert tensorrt_profile(shapes) == {
        "trt_profile_min_shapes": "target:1x3x8x8,source:1x512",
        "trt_profile_opt_shapes": "target:4x3x8x8,source:4x512",
        "trt_profile_max_shapes": "target:9x3x8x8,source:9x512",
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "plan", "provider": CPU}, "has no plans"),
        ({"method": "session", "provider": "NoSuchProvider"}, "not in this build"),
    ],
)
def test_the_builder_says_what_it_cannot_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], says: str
) -> None:
    request = {"model": "m", "out": str(tmp_path), "precision": "fp32", "shapes": {}, "target": "", "device": 0}
    (tmp_path / "request.json").write_text(json.dumps(request | change))
    assert main([str(tmp_path / "request.json")]) == 3
    assert says in capsys.readouterr().err
