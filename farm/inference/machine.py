"""What this machine is, as far as a compiled engine depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

_PACKAGES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "tensorrt",
    "tensorrt-cu13",
    "tensorrt-rtx-cu13-bindings",
    "onnxruntime-ep-nv-tensorrt-rtx-cu13",
)


@dataclass(frozen=True, slots=True)
class Machine:
    """gpu: name and compute capability, "none" without one. versions: of what compiles and runs engines."""

    gpu: str
    versions: dict[str, str]


def this_machine(device: int = 0) -> Machine:
    """Asks NVIDIA's management library where it is installed and there is a driver; touches no CUDA context."""
    versions = package_versions(*_PACKAGES)
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no card: all mean the same here
        return Machine("none", versions)
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(device)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        versions["driver"] = str(pynvml.nvmlSystemGetDriverVersion())
        return Machine(f"{pynvml.nvmlDeviceGetName(handle)}, {major}.{minor}", versions)
    finally:
        pynvml.nvmlShutdown()


def package_versions(*names: str) -> dict[str, str]:
    """Of those packages that are installed."""
    return {name: version for name in names if (version := _version(name)) is not None}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
