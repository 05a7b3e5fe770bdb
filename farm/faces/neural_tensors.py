"""Pictures to the tensors of a catalogue contract and back; the contract is the only source of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.inference.spec import Tensor

Picture = NDArray[np.float32]
"""RGB, 0..1, (n, h, w, 3)."""


def as_unit(pictures: NDArray[np.uint8] | NDArray[np.floating]) -> Picture:
    """Pictures (n, h, w, 3) as float32 0..1: uint8 is divided by 255, floats are taken as 0..1 already."""
    if pictures.ndim != 4 or pictures.shape[3] != 3:
        raise RecipeError(
            f"Pictures have shape {pictures.shape}, not (n, h, w, 3).",
            where="faces",
            do="Give a batch of RGB pictures.",
        )
    if pictures.dtype == np.uint8:
        return pictures.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(pictures, np.float32)


def to_tensor(pictures: Picture, contract: Tensor) -> NDArray[np.float32]:
    """RGB pictures 0..1 as the tensor that the contract describes: (range[0] + v·(range[1]-range[0]) - mean) / std."""
    values = pictures if contract.colour == "RGB" else pictures[..., ::-1]
    low, high = contract.range
    if (low, high) != (0.0, 1.0):
        values = values * np.float32(high - low) + np.float32(low)
    if any(contract.mean) or any(s != 1 for s in contract.std):
        values = (values - _constant(contract.mean)) / _constant(contract.std)
    if contract.layout == "NCHW":
        values = values.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(values, np.float32)


def to_pictures(tensor: NDArray[np.floating], contract: Tensor) -> Picture:
    """The inverse for an output: RGB 0..1, clipped. Only a contract with `denormalise` undoes mean and std."""
    values = np.asarray(tensor, np.float32)
    if contract.layout == "NCHW":
        values = values.transpose(0, 2, 3, 1)
    if contract.denormalise:
        values = values * _constant(contract.std) + _constant(contract.mean)
    low, high = contract.range
    if (low, high) != (0.0, 1.0):
        values = (values - np.float32(low)) / np.float32(high - low)
    if contract.colour == "BGR":
        values = values[..., ::-1]
    return np.ascontiguousarray(np.clip(values, 0, 1), np.float32)


def to_mask(tensor: NDArray[np.floating], contract: Tensor) -> NDArray[np.float32]:
    """A mask output (n, 1, h, w) or (n, h, w, 1) as (n, h, w), clipped to 0..1."""
    values = np.asarray(tensor, np.float32)
    return np.clip(values[..., 0] if contract.layout == "NHWC" else values[:, 0], 0, 1)


def _constant(values: tuple[float, ...]) -> NDArray[np.float32]:
    return np.array(values, np.float32)
