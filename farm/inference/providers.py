"""Which execution providers are asked for, which of them exist here, and how each is set up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from farm.errors import RecipeError, unknown

TENSORRT = "TensorrtExecutionProvider"
TENSORRT_RTX = "NvTensorRTRTXExecutionProvider"
CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"

CHAIN = (TENSORRT, TENSORRT_RTX, CUDA, CPU)
_SHORT = {"tensorrt": TENSORRT, "tensorrt-rtx": TENSORRT_RTX, "cuda": CUDA, "cpu": CPU}

Setup = tuple[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A provider that was asked for and is not used, and why."""

    provider: str
    why: str


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """device: index among the visible cards. engine_dir: the folder of this model's own engine cache, if any."""

    device: int = 0
    memory_limit: int | None = None
    fp16: bool = False
    engine_dir: Path | None = None


def expand(requested: Iterable[str]) -> tuple[str, ...]:
    """Provider names in order, from full names, short ones ("cuda") or "auto" (the whole chain); each once."""
    found: list[str] = []
    for name in requested:
        names = CHAIN if name == "auto" else (_SHORT.get(name, name),)
        for provider in names:
            if provider not in CHAIN:
                raise unknown(RecipeError, "execution provider", provider, ("auto", *_SHORT), where="providers")
            if provider not in found:
                found.append(provider)
    if not found:
        raise RecipeError("No execution provider was asked for.", where="providers", do="Use auto or cpu.")
    return tuple(found)


def setup(provider: str, settings: ProviderSettings) -> Setup:
    """The provider with the options that the farm sets: deterministic sizes, one card, one engine folder per model."""
    options: dict[str, str] = {}
    if provider == CUDA:
        options = {
            "device_id": str(settings.device),
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "arena_extend_strategy": "kSameAsRequested",
            "prefer_nhwc": "1",
        }
        if settings.memory_limit is not None:
            options["gpu_mem_limit"] = str(settings.memory_limit)
    elif provider == TENSORRT:
        options = {"device_id": str(settings.device), "trt_fp16_enable": str(int(settings.fp16))}
        if settings.engine_dir is not None:
            options |= {
                "trt_engine_cache_enable": "1",
                "trt_engine_cache_path": str(settings.engine_dir),
                "trt_timing_cache_enable": "1",
                "trt_timing_cache_path": str(settings.engine_dir),
            }
    elif provider == TENSORRT_RTX:
        options = {"device_id": str(settings.device)}
        if settings.engine_dir is not None:
            options["nv_runtime_cache_path"] = str(settings.engine_dir)
    return provider, options
