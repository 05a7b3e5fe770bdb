"""CuPy and its kernels: the text of this folder, compiled for the visible card at the first use."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from farm.faces.cuda.surface import Surface

# Without contraction the kernels add and multiply as their NumPy twins do.
OPTIONS = ("--std=c++17", "--fmad=false")
_HALF = "#include <cuda_fp16.h>\n"


def cupy() -> Any:
    """The module; its device is the first visible card."""
    import cupy

    return cupy


def type_name(dtype: Any) -> str:
    return "__half" if np.dtype(dtype) == np.float16 else "float"


@cache
def compiled(source: str, function: str, defines: tuple[tuple[str, str], ...], surface: bool) -> Any:
    """The compiled kernel; CuPy keeps the binary on disk."""
    folder = files("farm.faces.cuda")
    names = [f"{source}.cu"] if not surface else ["surface.cuh", f"{source}.cu"]
    text = _HALF + "".join(f"#define {key} {value}\n" for key, value in defines)
    text += "".join(folder.joinpath(name).read_text() for name in names)
    return cupy().RawKernel(text, function, options=OPTIONS)


def surface_kernel(source: str, surface: Surface, dtype: Any, function: str = "") -> Any:
    sample = "unsigned char" if surface.depth == 8 else "unsigned short"
    defines = (("SAMPLE", sample), ("SHIFT", str(surface.shift)), ("VALUE", type_name(dtype)))
    return compiled(source, function or source, defines, True)
