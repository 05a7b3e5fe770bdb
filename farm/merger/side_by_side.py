"""Pieces of work that run side by side in threads under one deadline on their progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from farm.errors import InfrastructureError

Tick = Callable[[], None]
"""To be called with every step forward (a packet, a frame)."""

STALL_SECONDS = 120.0
"""How long none of the pieces may move before all count as hung."""


class _Piece:
    """One piece in a daemon thread: a thread that hangs in native code must not keep the process from ending."""

    def __init__(self, work: Callable[[Tick], None], name: str) -> None:
        self.steps = 0
        self.error: BaseException | None = None
        self._work = work
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._work(self._tick)
        except BaseException as error:
            self.error = error

    def _tick(self) -> None:
        self.steps += 1


def side_by_side(works: Sequence[Callable[[Tick], None]], *, where: str, stall_seconds: float = STALL_SECONDS) -> None:
    """Run all to their ends; the first error, by order, is raised when all have ended.

    InfrastructureError as soon as for `stall_seconds` no piece has called its tick or ended: those are then left to
    themselves, since a thread cannot be ended.
    """
    pieces = [_Piece(work, f"verify-{number}") for number, work in enumerate(works)]
    for piece in pieces:
        piece.thread.start()
    before = None
    while waiting := [piece for piece in pieces if piece.thread.is_alive()]:
        waiting[0].thread.join(stall_seconds)
        moved = [(piece.steps, piece.thread.is_alive()) for piece in pieces]
        if moved == before and any(alive for _, alive in moved):
            raise InfrastructureError(
                f"Nothing moved for {stall_seconds:.0f} seconds.",
                where=where,
                do="Check the disk or the network share of the scratch folder and of the plate; merge again.",
            )
        before = moved
    for piece in pieces:
        if piece.error is not None:
            raise piece.error
