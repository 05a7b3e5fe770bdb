"""The builder process: what hangs, crashes and refusals do; real TensorRT for RTX builds where it is installed."""

from __future__ import annotations

import fcntl
import importlib.util
import sys
import threading
from pathlib import Path

import pytest

from farm.errors import InfrastructureError, InterruptedTaskError, RecipeError
from farm.inference.build import BuildProcess, request_for
from farm.inference.catalogue import Catalogue
from farm.inference.engines import EngineCache, EngineKey, Profile
from farm.inference.providers import TENSORRT_RTX
from farm.inference.spec import ModelSpec
from farm.inference.standins import DEFAULT_AXES, stand_in

CATALOGUE = Catalogue.load()
KEY = EngineKey(model_sha256="a" * 64, provider=TENSORRT_RTX, precision="fp32", gpu="none, 12.0", versions={})

PRELUDE = "import json, pathlib, sys, time\nout = pathlib.Path(json.load(open(sys.argv[1]))['out'])\n"


def played(tmp_path: Path, body: str, **more: float) -> tuple[BuildProcess, Path, Path]:
    """A builder that runs `body` instead of TensorRT, its out folder and its log."""
    out = tmp_path / "out"
    out.mkdir()
    process = BuildProcess(command=(sys.executable, "-c", PRELUDE + body), beat_seconds=0.05, **more)  # type: ignore[arg-type]
    return process, out, tmp_path / "build.log"


def test_a_build_leaves_its_files_and_its_log(tmp_path: Path) -> None:
    process, out, log = played(tmp_path, "(out / 'engine.plan').write_text('done'); print('compiled 7 layers')")
    process.build(request_for(KEY, tmp_path / "m", out, method="plan"), log)
    assert (out / "engine.plan").read_text() == "done"
    assert "compiled 7 layers" in log.read_text()


def test_a_crash_is_tried_again_from_an_empty_folder(tmp_path: Path) -> None:
    body = (
        "first = out.parent / 'first'\n"
        "assert not list(out.iterdir())\n"
        "(out / 'engine.plan').write_text('x')\n"
        "if not first.exists():\n    first.touch()\n    raise SystemExit(9)\n"
    )
    process, out, log = played(tmp_path, body)
    process.build(request_for(KEY, tmp_path / "m", out, method="plan"), log)
    assert "try 2 of 2" in log.read_text()


def test_a_builder_that_keeps_failing_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process, out, log = played(tmp_path, "print('no memory for tactic 12'); sys.exit(7)", tries=3)
    with pytest.raises(InfrastructureError, match=r"failed 3 times \(it ended with 7\).*no memory for tactic 12"):
        process.build(request_for(KEY, tmp_path / "m", out, method="plan"), log)


def test_an_operator_that_is_not_supported_is_not_tried_twice(tmp_path: Path) -> None:
    process, out, log = played(tmp_path, "print('no converter for GridSample'); sys.exit(3)")
    with pytest.raises(RecipeError, match="no converter for GridSample"):
        process.build(request_for(KEY, tmp_path / "m", out, method="plan"), log)
    assert "try 2" not in log.read_text()


def test_a_hang_is_ended_with_all_its_children_and_beats_are_given_meanwhile(tmp_path: Path) -> None:
    body = (
        "import fcntl, subprocess\n"
        "held = open(out.parent / 'held', 'w')\n"
        "fcntl.flock(held, fcntl.LOCK_EX)\n"
        "subprocess.Popen(['sleep', '600'], pass_fds=[held.fileno()]).wait()\n"
    )
    process, out, log = played(tmp_path, body, timeout=1.0, tries=1)
    states: list[str] = []
    with pytest.raises(InfrastructureError, match="took too long"):
        process.build(request_for(KEY, tmp_path / "m", out, method="plan"), log, beat=states.append)
    assert set(states) == {"building engine"}
    with (tmp_path / "held").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # had only when the last process that holds it is gone


def test_a_cancelled_job_ends_the_build(tmp_path: Path) -> None:
    process, out, log = played(tmp_path, "time.sleep(60)", timeout=60)

    def stop(state: str) -> None:
        raise InterruptedTaskError("The job was cancelled.")

    with pytest.raises(InterruptedTaskError):
        process.build(request_for(KEY, tmp_path / "m", out, method="plan"), log, beat=stop)


def test_a_second_worker_waits_for_the_first_and_builds_nothing(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()
    built: list[int] = []

    def slow(out: Path) -> None:
        (out / "engine.plan").write_bytes(b"x")
        built.append(1)
        inside.set()
        go_on.wait(30)

    states: list[str] = []

    def waiting(state: str) -> None:
        states.append(state)
        go_on.set()

    first = threading.Thread(target=lambda: EngineCache(tmp_path).ensure(KEY, slow))
    first.start()
    assert inside.wait(30)
    found = EngineCache(tmp_path).ensure(KEY, slow, beat=waiting)
    first.join()
    assert built == [1]
    assert states[0].startswith("waiting for an engine")
    assert (found / "engine.plan").exists()


rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx_bindings") is None
    or importlib.util.find_spec("onnxruntime_ep_nv_tensorrt_rtx") is None,
    reason="TensorRT for RTX is not installed (extra tensorrt-rtx)",
)


def profiles(spec: ModelSpec) -> dict[str, Profile]:
    """A batch of 1, 4 or 16 for every input with a free axis."""

    def shape(sizes: tuple[int | str, ...], count: int) -> tuple[int, ...]:
        return tuple(size if isinstance(size, int) else {**DEFAULT_AXES, "N": count}[size] for size in sizes)

    return {
        tensor.in_graph: Profile(*(shape(tensor.shape, count) for count in (1, 4, 16)))
        for tensor in spec.inputs
        if any(isinstance(size, str) for size in tensor.shape)
    }


@rtx
@pytest.mark.parametrize(
    "spec",
    [pytest.param(spec, id=spec.name) for spec in CATALOGUE if not (spec.bundled or spec.builtin or spec.not_built)],
)
def test_every_stand_in_compiles_for_a_gpu_that_is_not_here(tmp_path: Path, spec: ModelSpec) -> None:
    model, out = tmp_path / "model.onnx", tmp_path / "out"
    model.write_bytes(stand_in(spec))
    out.mkdir()
    key = EngineKey(
        model_sha256="0" * 64, provider=TENSORRT_RTX, precision="fp32", gpu="12.0", versions={}, shapes=profiles(spec)
    )
    request = request_for(key, model, out, method="plan", target="12.0")
    BuildProcess(tries=1, timeout=300).build(request, tmp_path / "build.log")
    assert (out / "engine.plan").stat().st_size > 1000


@rtx
def test_an_operator_that_tensorrt_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    import onnx

    node = onnx.helper.make_node("NoSuchOperator", ["x"], ["y"], domain="farm.test")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("farm.test", 1)]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    model, out = tmp_path / "model.onnx", tmp_path / "out"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), model)
    out.mkdir()
    with pytest.raises(RecipeError, match="NoSuchOperator"):
        BuildProcess().build(request_for(KEY, model, out, method="plan", target="12.0"), tmp_path / "build.log")
