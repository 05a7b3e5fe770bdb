"""Which provider is chosen, and what is said of the others, with an ONNX Runtime that is played."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from farm.errors import InputError, RecipeError
from farm.inference import opening
from farm.inference import providers as ep
from farm.inference.catalogue import Catalogue
from farm.inference.licences import LicencePolicy
from farm.inference.opening import Opener

SPEC = Catalogue.load().spec("sface")


class PlayedRuntime:
    """Has the providers in `available`; those in `failing` raise, those in `silent` fall back without a word."""

    def __init__(self, available: tuple[str, ...], failing: tuple[str, ...] = (), silent: tuple[str, ...] = ()) -> None:
        self.available, self.failing, self.silent = available, failing, silent
        self.asked: list[Any] = []
        self.registered: list[str] = []
        self.devices: list[Any] = []
        self.ExecutionMode = SimpleNamespace(ORT_SEQUENTIAL=0)

    def SessionOptions(self) -> Any:
        def add_provider_for_devices(devices: list[Any], options: dict[str, str]) -> None:
            self.asked.append((devices[0].ep_name, options))

        return SimpleNamespace(
            add_session_config_entry=lambda *_: None, add_provider_for_devices=add_provider_for_devices
        )

    def get_available_providers(self) -> list[str]:
        return list(self.available)

    def preload_dlls(self) -> None:
        pass

    def get_ep_devices(self) -> list[Any]:
        return self.devices if self.registered else []

    def register_execution_provider_library(self, name: str, library: str) -> None:
        if library == "broken.so":
            raise RuntimeError("libcuda.so.1: cannot open shared object file\nmore")
        self.registered.append(library)

    def InferenceSession(self, source: Any, options: Any, providers: Any) -> Any:
        name = providers[0][0] if providers else self.asked[-1][0]
        self.asked.append(providers)
        if name in self.failing:
            raise RuntimeError(f"{name} has no device\nsecond line")
        actual = ep.CPU if name in self.silent else name
        value = SimpleNamespace(name="data", shape=["N", 3, 112, 112], type="tensor(float)")
        return SimpleNamespace(
            disable_fallback=lambda: None, get_providers=lambda: [actual], get_inputs=lambda: [value]
        )


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    def playing(played: PlayedRuntime) -> PlayedRuntime:
        monkeypatch.setattr(opening, "runtime", lambda: played)
        opening._preload_cuda.cache_clear()
        return played

    return playing


def test_the_chain_falls_through_to_what_runs_and_says_why(play: Any, tmp_path: Path) -> None:
    play(PlayedRuntime((ep.TENSORRT, ep.CUDA, ep.CPU), failing=(ep.TENSORRT,), silent=(ep.CUDA,)))
    weights = tmp_path / "weights.onnx"
    weights.write_bytes(b"a graph")
    opened = Opener(ep.expand(["auto"])).open(SPEC, "fp16", weights)
    assert opened.actual == ep.CPU
    assert {skip.provider: skip.why for skip in opened.skipped} == {
        ep.TENSORRT: "TensorrtExecutionProvider has no device",
        ep.TENSORRT_RTX: "the package onnxruntime-ep-nv-tensorrt-rtx is not installed",
        ep.CUDA: "ONNX Runtime could not start it on this machine",
    }


def test_without_cpu_in_the_chain_nothing_falls_back_to_it(play: Any) -> None:
    play(PlayedRuntime((ep.CUDA, ep.CPU), silent=(ep.CUDA,)))
    with pytest.raises(RecipeError, match="CUDAExecutionProvider: ONNX Runtime could not start it"):
        Opener(ep.expand(["cuda"])).open(SPEC, "fp16", Path("weights.onnx"))


def test_tensorrt_gets_an_engine_folder_of_this_model_alone(play: Any, tmp_path: Path) -> None:
    played = play(PlayedRuntime((ep.TENSORRT,)))
    opener = Opener((ep.TENSORRT,), engine_dir=lambda spec, precision, *_: tmp_path / f"{spec.name}-{precision}")
    assert opener.open(SPEC, "fp16", Path("weights.onnx")).actual == ep.TENSORRT
    options = played.asked[0][0][1]
    assert options["trt_engine_cache_path"] == str(tmp_path / "sface-fp16")
    assert options["trt_fp16_enable"] == "1"


@pytest.mark.parametrize(
    ("library", "devices", "says"),
    [("broken.so", [ep.TENSORRT_RTX], "libcuda.so.1: cannot open"), ("good.so", [], "no GPU of this machine suits it")],
)
def test_a_plug_in_provider_that_cannot_start_is_named_with_its_reason(
    play: Any, monkeypatch: pytest.MonkeyPatch, library: str, devices: list[str], says: str
) -> None:
    played = play(PlayedRuntime(()))
    played.devices = [SimpleNamespace(ep_name=name) for name in devices]
    package = SimpleNamespace(get_library_path=lambda: library)
    monkeypatch.setattr(opening.importlib, "import_module", lambda name: package)
    with pytest.raises(RecipeError, match=says):
        Opener((ep.TENSORRT_RTX,)).open(SPEC, "fp16", Path("weights.onnx"))


def test_a_plug_in_provider_is_given_its_device_and_registered_once(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(PlayedRuntime(()))
    played.devices = [SimpleNamespace(ep_name=ep.TENSORRT_RTX)]
    monkeypatch.setattr(
        opening.importlib, "import_module", lambda name: SimpleNamespace(get_library_path=lambda: "good.so")
    )
    for _ in range(2):
        assert Opener((ep.TENSORRT_RTX,)).open(SPEC, "fp16", Path("weights.onnx")).actual == ep.TENSORRT_RTX
    assert played.registered == ["good.so"]
    assert played.asked[0] == (ep.TENSORRT_RTX, {"device_id": "0"})


def test_names_of_providers_and_licence_classes_are_checked() -> None:
    assert ep.expand(["cuda", "CPUExecutionProvider", "cuda"]) == (ep.CUDA, ep.CPU)
    for wrong in (["gpu"], []):
        with pytest.raises(RecipeError, match="provider"):
            ep.expand(wrong)
    with pytest.raises(InputError, match=r"'research'.*non-commercial"):
        LicencePolicy.of(["research"])
