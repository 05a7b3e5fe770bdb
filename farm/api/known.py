"""Plates that were looked at before: the same bytes need no second look."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from farm.api.intake import Received
from farm.media.facts import PlateFacts

MOST = 512


class KnownPlates:
    """A probe that remembers what it found, by sha256, for the last `most` files that it did not refuse.

    One life of the API long: another version of the farm may see more in a file.
    """

    def __init__(self, probe: Callable[[Path], PlateFacts], most: int = MOST) -> None:
        self._probe = probe
        self._most = most
        self._found: OrderedDict[str, PlateFacts] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, file: Received) -> PlateFacts:
        """Facts of the file; raises what the probe raises."""
        with self._lock:
            known = self._found.get(file.sha256)
        if known is None:
            known = self._probe(file.path)
        with self._lock:
            self._found[file.sha256] = known
            self._found.move_to_end(file.sha256)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return known
