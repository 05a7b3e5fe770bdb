"""Identifiers: ULIDs, 26 characters that sort by the time they were made and say nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(*, milliseconds: int, entropy: bytes) -> str:
    """The ULID of a time (ms since 1970, 48 bits) and 10 random bytes (github.com/ulid/spec)."""
    value = (milliseconds << 80) | int.from_bytes(entropy)
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))


def new_id(*, clock: Callable[[], float] = time.time, random: Callable[[int], bytes] = os.urandom) -> str:
    """A fresh ULID. Its time is a hint for index locality only: nothing may be decided by it."""
    return ulid(milliseconds=int(clock() * 1000), entropy=random(10))
