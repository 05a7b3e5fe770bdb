"""What a scenario is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select

from farm.db.tables import Chunk
from tests.chaos.harness import ChaosFarm

Run = Callable[[ChaosFarm, random.Random], list[str]]

CHUNK_SECONDS = (0.5, 0.7, 1.2)
"""A plate of 2.5 s gives five, four or three chunks."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Hurts the farm once. `run` returns the jobs to be judged; `needs`: words that `ChaosFarm.has` must hold."""

    name: str
    kind: str
    run: Run
    needs: frozenset[str] = frozenset()


def done_chunks(farm: ChaosFarm, job: str) -> int:
    wanted = select(func.count()).where(Chunk.job_id == job, Chunk.attempt_id.is_not(None))
    return farm.read(lambda s: s.scalar(wanted)) or 0


def some_chunks(dice: random.Random) -> float:
    """A length of chunks."""
    return dice.choice(CHUNK_SECONDS)
