"""The card's own back end on a CuPy that is NumPy: what tests/gpu asks of a card, as far as that goes without one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from farm.faces.cuda.compiled import compiled
from tests.gpu.test_card import (  # noqa: F401
    test_colours_are_matched_and_checked_as_the_twins_do,
    test_crop,
    test_paste_keeps_what_the_mask_does_not_touch,
    test_planes_are_the_twin_s_and_their_memory_is_used_again,
    test_restored_crops_are_mixed_in_as_the_twin_does,
)
from tests.unit.gpu.cupy_twin import cupy_twin
from tests.unit.gpu.emulation import Emulated

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run the kernels' source with")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    assert COMPILER is not None
    compiler = COMPILER
    return cache(lambda depth: Emulated(tmp_path_factory.mktemp("kernels"), compiler, depth=depth))


@pytest.fixture
def card(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, emulated: Any) -> Iterator[Any]:
    if request.node.callspec.params.get("dtype") is np.float16:
        pytest.skip("half precision is not emulated")
    monkeypatch.setitem(sys.modules, "cupy", cupy_twin(emulated))
    compiled.cache_clear()
    from farm.faces.cuda.device import CudaKernels

    yield CudaKernels()
    compiled.cache_clear()
