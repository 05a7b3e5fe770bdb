"""Numerical safety: half precision can end in infinities or a black face; such an output is never pasted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError, PolicyError
from farm.inference.spec import ModelSpec, is_int8

Outputs = dict[str, NDArray[Any]]

_FLAT = 1e-3
"""Standard deviation under which a picture of 0..1 shows nothing."""


@dataclass(frozen=True, slots=True)
class Checked:
    """outputs: of the network. redone, ok: bool (n,): done again in full precision; usable at all."""

    outputs: Outputs
    redone: NDArray[np.bool_]
    ok: NDArray[np.bool_]


def usable(output: NDArray[np.floating], given: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which samples (n,) of an output are finite, and not flat where the given picture was not."""
    flat_axes = tuple(range(1, output.ndim))
    finite = np.isfinite(output).all(axis=flat_axes)
    spread = np.where(finite.reshape(-1, *(1,) * (output.ndim - 1)), output, 0).astype(np.float64).std(axis=flat_axes)
    asked = np.asarray(given, np.float64).std(axis=tuple(range(1, given.ndim)))
    # What shows nearly nothing may be answered with nearly nothing: a tile of a dark sky is no broken network.
    good: NDArray[np.bool_] = finite & ((spread > np.minimum(_FLAT, asked / 10)) | (asked <= _FLAT))
    return good


def checked(
    run: Callable[[NDArray[np.float32]], Outputs],
    again: Callable[[NDArray[np.float32]], Outputs] | None,
    given: NDArray[np.float32],
    name: str,
) -> Checked:
    """Run on a batch, look at output `name`, and run the samples that are not usable again in full precision.

    again: the same network in fp32, or None where there is none (or the first run was in fp32 already). Where its
    weights are not to be had here, the samples stay unusable.
    """
    outputs = run(given)
    ok = usable(outputs[name], given)
    redone = np.zeros(len(given), bool)
    if again is not None and not ok.all():
        wrong = np.flatnonzero(~ok)
        try:
            better = again(given[wrong])
        except (InputError, PolicyError):
            return Checked(outputs, redone, ok)
        outputs = {key: np.array(value, np.float32) for key, value in outputs.items()}
        for key, value in better.items():
            outputs[key][wrong] = value
        redone[wrong] = True
        ok[wrong] = usable(better[name], given[wrong])
    return Checked(outputs, redone, ok)


def full_precision(spec: ModelSpec, precision: str | None) -> str | None:
    """The file to make an unusable output again with; None where the one in use is in full precision already."""
    used = precision or spec.default_precision
    return "fp32" if ("fp16" in used or is_int8(used)) and "fp32" in spec.files else None
