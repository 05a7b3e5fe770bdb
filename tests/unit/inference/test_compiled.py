from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import RecipeError
from farm.inference.build import BuildRequest
from farm.inference.catalogue import Catalogue
from farm.inference.compiled import CompiledEngines, profiles
from farm.inference.engines import Profile
from farm.inference.machine import Machine, this_machine
from farm.inference.providers import CUDA, TENSORRT, TENSORRT_RTX

CATALOGUE = Catalogue.load()
L4 = Machine("NVIDIA L4, 8.9", {"tensorrt": "10.14"})


class PlayedProcess:
    def __init__(self) -> None:
        self.requests: list[BuildRequest] = []

    def build(self, request: BuildRequest, log: Path, *, beat: object = None) -> None:
        self.requests.append(request)
        Path(request.out, "engine").write_bytes(request.model.encode())


def engines(folder: Path, **more: object) -> tuple[CompiledEngines, PlayedProcess]:
    process = PlayedProcess()
    return CompiledEngines(folder, machine=L4, process=process, **more), process  # type: ignore[arg-type]


def test_profiles_follow_the_contract() -> None:
    assert profiles(CATALOGUE.spec("inswapper-128"), 32) == {
        "source": Profile((1, 512), (4, 512), (32, 512)),
        "target": Profile((1, 3, 128, 128), (4, 3, 128, 128), (32, 3, 128, 128)),
    }
    assert profiles(CATALOGUE.spec("span-x2"), 1)["data"].most == (1, 3, 256, 256)
    assert profiles(CATALOGUE.spec("palm-detection"), 8) == {}, "a graph without free axes needs none"


def test_a_session_finds_its_engine_built_once_for_these_weights(tmp_path: Path) -> None:
    made, process = engines(tmp_path)
    spec = CATALOGUE.spec("sface")
    first = made(spec, "fp32", TENSORRT, Path("weights.onnx"))
    assert first == made(spec, "fp32", TENSORRT, Path("weights.onnx"))
    (request,) = process.requests
    assert (request.method, request.provider, request.precision) == ("session", TENSORRT, "fp32")
    assert request.shapes["data"]["most"] == [16, 3, 112, 112]
    other = made(CATALOGUE.spec("yunet"), "fp32", TENSORRT, Path("other.onnx"))
    assert other != first


def test_providers_that_compile_at_run_time_or_not_at_all(tmp_path: Path) -> None:
    made, process = engines(tmp_path)
    yunet, sface = CATALOGUE.spec("yunet"), CATALOGUE.spec("sface")
    folders = {made(yunet, "fp32", TENSORRT_RTX, Path("w")), made(sface, "fp32", TENSORRT_RTX, Path("w"))}
    assert len(folders) == 2
    assert made(yunet, "fp32", CUDA, Path("w")) is None
    assert process.requests == []


def test_a_plan_for_another_gpu_has_that_gpu_in_its_key(tmp_path: Path) -> None:
    made, process = engines(tmp_path, target="12.0")
    spec = CATALOGUE.spec("yunet")
    made.compile(spec, "fp32", "tensorrt-rtx", Path("weights.onnx"))
    assert process.requests[0].method == "plan"
    assert made.key(spec, "fp32", TENSORRT_RTX).gpu == "compiled for 12.0"
    with pytest.raises(RecipeError, match="--target"):
        engines(tmp_path)[0].compile(spec, "fp32", "tensorrt-rtx", Path("weights.onnx"))


def test_this_machine_names_its_onnx_runtime() -> None:
    assert any(name.startswith("onnxruntime") for name in this_machine().versions)
