"""The builder process: `python -m farm.inference.engine_builder REQUEST.json`.

Writes its files to the folder that the request names. Exit status 0 built, 3 this provider cannot serve the model or is
not installed, anything else a failure that may be tried again.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

from farm.inference.build import UNSUPPORTED
from farm.inference.providers import TENSORRT, TENSORRT_RTX, ProviderSettings, setup

Request = dict[str, Any]


class CannotServeError(Exception):
    """The model or the machine does not suit this provider."""


def main(arguments: list[str] | None = None) -> int:
    (path,) = arguments if arguments is not None else sys.argv[1:]
    request: Request = json.loads(Path(path).read_text())
    try:
        {"plan": _plan, "session": _session, "calibrate": _calibrate}[request["method"]](request)
    except CannotServeError as error:
        sys.stderr.write(f"{error}\n")
        return UNSUPPORTED
    return 0


def _calibrate(request: Request) -> None:
    """The model in int8."""
    from farm.inference.quantise import calibrate

    try:
        calibrate(Path(request["model"]), Path(request["samples"]), request["output"], Path(request["out"]))
    except ImportError as error:
        raise CannotServeError(f"quantising needs a package that is not installed: {error}") from error


def _session(request: Request) -> None:
    """Let ONNX Runtime's provider compile and cache while a session is made and run at the profile's shapes."""
    import numpy as np

    from farm.inference.opening import runtime

    ort = runtime()
    provider = request["provider"]
    if provider not in ort.get_available_providers():
        raise CannotServeError(f"{provider} is not in this build of ONNX Runtime")
    ort.preload_dlls()
    settings = ProviderSettings(
        device=request["device"], fp16="fp16" in request["precision"], engine_dir=Path(request["out"])
    )
    name, options = setup(provider, settings)
    if provider == TENSORRT and request["shapes"]:
        options |= tensorrt_profile(request["shapes"])
    session = ort.InferenceSession(request["model"], providers=[(name, options), ("CPUExecutionProvider", {})])
    if session.get_providers()[0] != provider:
        raise CannotServeError(f"{provider} did not start on this machine")
    types = {"tensor(float16)": np.float16, "tensor(double)": np.float64}
    for which in ("least", "usual", "most"):
        feed = {
            value.name: np.zeros(request["shapes"][value.name][which], types.get(value.type, np.float32))
            for value in session.get_inputs()
        }
        session.run(None, feed)


def tensorrt_profile(shapes: dict[str, dict[str, list[int]]]) -> dict[str, str]:
    """ONNX Runtime's options for an explicit profile: "input:1x3x128x128,…" for the least, usual and most."""
    words = {"least": "min", "usual": "opt", "most": "max"}
    return {
        f"trt_profile_{word}_shapes": ",".join(
            f"{name}:{'x'.join(str(size) for size in profile[which])}" for name, profile in shapes.items()
        )
        for which, word in words.items()
    }


def _plan(request: Request) -> None:
    """Compile with the library alone."""
    library = _library(request["provider"])
    log = _logger(library)
    builder = library.Builder(log)
    network = builder.create_network(0)
    parser = library.OnnxParser(network, log)
    if not parser.parse(Path(request["model"]).read_bytes()):
        errors = "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))
        raise CannotServeError(f"the model cannot be read: {errors}")
    config = builder.create_builder_config()
    _aim(library, config, request["target"])
    profile = builder.create_optimization_profile()
    for name, shapes in request["shapes"].items():
        profile.set_shape(name, tuple(shapes["least"]), tuple(shapes["usual"]), tuple(shapes["most"]))
    config.add_optimization_profile(profile)
    flag = getattr(library.BuilderFlag, "FP16", None)  # TensorRT for RTX takes the types of the graph as they are
    if flag is not None and "fp16" in request["precision"]:
        config.set_flag(flag)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise CannotServeError("the library built nothing; its reasons stand above")
    Path(request["out"], "engine.plan").write_bytes(bytes(plan))


def _library(provider: str) -> Any:
    """The Python module of TensorRT, or of TensorRT for RTX with the shared libraries of ONNX Runtime's plug-in."""
    name = {TENSORRT: "tensorrt", TENSORRT_RTX: "tensorrt_rtx_bindings"}.get(provider)
    if name is None:
        raise CannotServeError(f"{provider} has no plans")
    if provider == TENSORRT_RTX:
        _load_plugin_libraries()
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise CannotServeError(f"the {name} package is not usable here: {error}") from error


def _load_plugin_libraries() -> None:
    """Load the shared libraries that the plug-in and CUDA wheels carry, so that the bindings find them."""
    folders = [
        Path(place)
        for package in ("onnxruntime_ep_nv_tensorrt_rtx", "nvidia")
        if (spec := importlib.util.find_spec(package)) is not None
        for place in spec.submodule_search_locations or ()
    ]
    for pattern in ("libcudart.so.*", "libtensorrt_rtx.so.*", "libtensorrt_onnxparser_rtx.so.*"):
        for path in sorted(found for folder in folders for found in folder.rglob(pattern)):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _logger(library: Any) -> Any:
    return library.Logger(library.Logger.WARNING)


def _aim(library: Any, config: Any, target: str) -> None:
    """Compile for a compute capability ("12.0") instead of the GPU of this machine."""
    if not target:
        return
    if not re.fullmatch(r"\d+\.\d", target) or not hasattr(config, "set_compute_capability"):
        raise CannotServeError(f"this library cannot compile for {target!r}")
    capability = getattr(library.ComputeCapability, f"SM{target.replace('.', '')}", None)
    if capability is None:
        raise CannotServeError(f"this library does not know compute capability {target}")
    config.num_compute_capabilities = 1
    config.set_compute_capability(capability, 0)


if __name__ == "__main__":
    raise SystemExit(main())
