"""What this room needs of the room of inference: something that runs, found by name."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray


class Network(Protocol):
    """A loaded model. `run` may be called from several threads."""

    def run(self, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]: ...


class Networks(Protocol):
    """The loaded models of this process; `farm.inference.session.Models` is the real one."""

    def load(self, name: str) -> Network: ...


DETECTOR = "yunet"
LANDMARKER = "face-landmarks-478"
EXPRESSIONS = "face-blendshapes-52"
EMBEDDER = "sface"
PALMS = "palm-detection"
HANDS = "hand-landmarks"
UPSCALER = "span-x2"
"""Catalogue names of the bundled networks."""
