"""The render of a range of frames on a card, or on its NumPy twin: a line of stages that work side by side.

Batches are taken from the decoder, looked at, tracked, swapped and labelled, and fetched into memory, each in a thread
and, on a card, on a stream of its own; a bounded number is under way between two stages, so that none runs ahead.
Tracking, mapping, masks by region and reports are those of `farm.faces.pipeline`; only the array work is another back
end's. The result of frame n depends on frames n - before to n + after (see `context`) and on nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.cuda.analyst import CardAnalyst, CardBatch, head_of
from farm.faces.cuda.backend import Array, Kernels
from farm.faces.cuda.mesh_painter import MeshPainter
from farm.faces.cuda.networks import CardNetworks
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import CardPainter, Painted, Planned
from farm.faces.cuda.rates import Rates
from farm.faces.cuda.restore_painter import Painter, RestorePainter
from farm.faces.cuda.surface import Surface
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import Mapping
from farm.faces.meshwarp import SwapSettings
from farm.faces.neural_settings import NeuralSwapSettings, RestoreSettings
from farm.faces.pipeline import Rendered
from farm.faces.processors import sight_of
from farm.faces.report import FrameReport
from farm.faces.roles import Roles
from farm.faces.spans import CADENCE
from farm.faces.stages import Depth, ahead
from farm.faces.track import AFTER, BEFORE, Window
from farm.faces.views import FrameView
from farm.inference.session import Models
from farm.media.facts import PlateFacts
from farm.media.frame import CardFrame, Frame
from farm.recipe import MESH_WARP, RESTORE, SWAP, Recipe

CONTEXT = (BEFORE + CADENCE - 1, AFTER + CADENCE - 1)
"""Frames needed before and after each frame: the window, and the frames on whose lines its ends lie."""

_FED = 1
"""Batches that wait to be looked at, beside the one that is being filled."""
_PAINTED = 2
"""Batches that are painted and fetched while the next is tracked."""


class Watcher(Protocol):
    """Somebody who looks at some of the plate's frames before they are painted."""

    def wants(self, index: int) -> bool: ...
    def seen(self, frame: Frame) -> None: ...


@dataclass(slots=True)
class _Pending:
    """A batch with the plan of each of its frames, as far as they are decided."""

    batch: CardBatch
    planned: list[list[Planned]] = field(default_factory=list)

    @property
    def decided(self) -> bool:
        return len(self.planned) == len(self.batch)


class CardPipeline:
    """Renders frames by a recipe of one swapper, one restorer, or both; `farm.faces.cuda.fit` says which fit.

    Parameters
    ----------
    overlay: the visible label, laid over every frame. matte: whether `Rendered.mask` is wanted, which is worked out on
    the processor. watcher: sees frames of the plate, for callers that cannot look at those that they give.
    to_encoder: whether `Rendered.there` is wanted, for an encoder that takes pictures on the card.
    """

    context = CONTEXT

    def __init__(
        self,
        recipe: Recipe,
        cast_mapping: Mapping,
        identities: MappingOf[str, PreparedIdentity],
        models: Models,
        facts: PlateFacts,
        networks: CardNetworks,
        surface: Surface,
        *,
        overlay: Overlay | None = None,
        matte: bool = False,
        rates: Rates | None = None,
        watcher: Watcher | None = None,
        to_encoder: bool = False,
    ) -> None:
        self._roles = Roles(recipe, cast_mapping, identities, facts)
        self._networks, self._surface = networks, surface
        self._batch = networks.batch
        sight = sight_of(recipe)
        chosen = any(len(identities[name].bank) > 1 for name in cast_mapping.identities if name in identities)
        self._analyst = CardAnalyst(
            networks, surface, models, facts, hands=sight.hands, skin=sight.skin, expressions=chosen and sight.skin,
        )  # fmt: skip
        self._painter = _painter(recipe, networks, surface, models, self._analyst, overlay, matte)
        self._rates = rates or Rates()
        self._watcher, self._to_encoder = watcher, to_encoder
        self._free: deque[Array] = deque()
        self._fed = Depth()
        self._painting: deque[Future[list[Rendered]]] = deque()

    @property
    def queues(self) -> dict[str, int]:
        """Batches that wait to be looked at, and that are painted and fetched."""
        return {"decoded": self._fed.value, "painting": len(self._painting)}

    def process(self, frames: Iterable[Frame], first: int, last: int) -> Iterator[Rendered]:
        """Frames [first, last), in order, of `frames` from first - before to last + after (fewer at the plate's ends).

        `frames` are read in another thread, and closed there. The planes given out lie in pinned memory on a card: who
        keeps one keeps its batch. Memory: about ten batches on the device, however long the range.
        """
        painting = self._painting
        with closing(self._looked(frames, last + self.context[1])) as looked:
            try:
                for pending in self._planned(looked, first, last):
                    painting += self._painted(pending, first, last)
                    if len(painting) > _PAINTED:
                        yield from painting.popleft().result()
                while painting:
                    yield from painting.popleft().result()
            finally:
                _abandon(painting)
                painting.clear()
                self._networks.hand.home.rest()

    def _looked(self, frames: Iterable[Frame], end: int) -> Generator[tuple[CardBatch, list[FrameView]], None, None]:
        """Batches and what is seen in them, in order; each eye has one in hand and at most one before it."""
        eyes = self._networks.eyes
        begun: deque[tuple[CardBatch, Future[list[FrameView]]]] = deque()
        with closing(ahead(self._batches(frames, end), _FED, self._fed)) as batches:
            try:
                for number, batch in enumerate(batches):
                    turn = number % len(eyes)
                    begun.append((batch, eyes[turn].home.submit(self._look, batch, turn)))
                    if len(begun) > len(eyes):
                        yield begun[0][0], begun.popleft()[1].result()
                while begun:
                    yield begun[0][0], begun.popleft()[1].result()
            finally:
                _abandon(future for _, future in begun)

    def _look(self, batch: CardBatch, turn: int) -> list[FrameView]:
        with self._rates.timed("look", len(batch)):
            return self._analyst.look(batch, turn)

    def _planned(
        self, looked: Iterable[tuple[CardBatch, list[FrameView]]], first: int, last: int
    ) -> Iterator[_Pending]:
        """Batches in order, each when all of its frames are decided."""
        window = Window(self._analyst)
        waiting: deque[_Pending] = deque()
        undecided: deque[tuple[_Pending, FrameView]] = deque()
        for batch, views in looked:
            pending = _Pending(batch)
            waiting.append(pending)
            with self._rates.timed("track", len(batch)):
                for view in views:
                    window.push(view)
                    undecided.append((pending, view))
                    while undecided and undecided[0][1].index + AFTER <= view.index:
                        self._decide(window, *undecided.popleft(), first, last)
            while waiting and waiting[0].decided:
                yield waiting.popleft()
        while undecided:
            self._decide(window, *undecided.popleft(), first, last)
        yield from waiting

    def _decide(self, window: Window, pending: _Pending, view: FrameView, first: int, last: int) -> None:
        """Whose faces the frame shows, by its window, while that is complete and its samples are the plate's own."""
        faces = []
        if first <= view.index < last:
            for track in window.tracks(view.index):
                face = self._roles.face(view, track)
                hands = tuple(window.hands(track)) if face.refused is None else ()
                faces.append(Planned(face, hands, self._roles.identity(face)))
        pending.planned.append(faces)

    def _painted(self, pending: _Pending, first: int, last: int) -> list[Future[list[Rendered]]]:
        """The batch on its way through the last stages; nothing where none of its frames is wanted."""
        batch = pending.batch
        wanted = [place for place, head in enumerate(batch.heads) if first <= head.index < last]
        if not wanted:
            self._free.append(batch.array)
            return []
        self._watch(batch, wanted)
        begun = self._networks.hand.home.submit(self._begun, pending)
        return [self._networks.fetch.home.submit(self._fetched, begun, wanted)]

    def _begun(self, pending: _Pending) -> Any:
        with self._rates.timed("swap", 0):
            return self._painter.begin(pending.batch, pending.planned)

    def _fetched(self, painting: Future[Any], wanted: list[int]) -> list[Rendered]:
        """The frames at the places `wanted`, a range, in memory; their batch is free for others afterwards."""
        begun, kernels = painting.result(), self._networks.fetch.kernels
        batch = begun.batch
        with self._rates.timed("swap", len(wanted)):
            done = self._painter.finish(begun, kernels)
        with self._rates.timed("fetch", len(wanted)):
            there = [self._there(kernels, batch.array[place]) for place in wanted] if self._to_encoder else []
            samples = kernels.planes(batch.array[wanted[0] : wanted[-1] + 1], self._surface)
            made = [
                self._finished(batch.heads[place], picture, done, place)
                for place, picture in zip(wanted, samples, strict=True)
            ]
            made = [replace(one, there=picture) for one, picture in zip(made, there, strict=True)] if there else made
        self._free.append(batch.array)
        return made

    def _there(self, kernels: Kernels, picture: Array) -> tuple[Array, Array]:
        """Luma and chroma of a picture in memory of the device that is its own."""
        own = kernels.copied(picture)
        return own[: self._surface.height], own[self._surface.height :]

    def _watch(self, batch: CardBatch, places: Sequence[int]) -> None:
        for place in places:
            if self._watcher is not None and self._watcher.wants(batch.heads[place].index):
                self._watcher.seen(self._analyst.fetched(batch, place))

    def _finished(self, head: Frame, picture: NDArray[np.generic], done: Painted, place: int) -> Rendered:
        report = FrameReport(index=head.index, pts=head.pts, faces=tuple(done.reports[place]))
        return Rendered(self._surface.split(picture, head), report, done.masks.get(place))

    def _batches(self, frames: Iterable[Frame], end: int) -> Iterator[CardBatch]:
        """Batches as `_cut` makes them, each with a mark; `frames` are closed with this, and no picture is kept."""
        kernels, start = self._networks.feed.kernels, self._rates.clock()
        try:
            for batch in self._cut(frames, end):
                batch.ready = kernels.mark()
                self._rates.add("decode", self._rates.clock() - start, len(batch))
                yield batch
                start = self._rates.clock()
        finally:
            kernels.wait()
            close = getattr(frames, "close", None)
            if close is not None:
                close()

    def _cut(self, frames: Iterable[Frame], end: int) -> Iterator[CardBatch]:
        """Batches that begin at multiples of CADENCE, each with the frame after it behind it.

        Frames before the first multiple, and after the last where the plate goes on, could not be looked at as every
        other chunk would.
        """
        batch: CardBatch | None = None
        for frame in frames:
            if batch is None:
                if frame.index % CADENCE:
                    continue
                batch = CardBatch(self._array(), [])
            elif len(batch) == self._batch:
                self._upload(batch, frame, len(batch))
                batch.peek = True
                yield batch
                batch = CardBatch(self._array(), [])
            self._upload(batch, frame, len(batch))
            batch.heads.append(head_of(frame))
        if batch is None:
            return
        if batch.heads[-1].index + 1 >= end:
            # The last multiple is the frame that the ones before it need to look at; behind it nothing is known.
            del batch.heads[len(batch) - batch.heads[-1].index % CADENCE :]
        if len(batch):
            yield batch

    def _array(self) -> Array:
        try:
            return self._free.popleft()
        except IndexError:
            shape = (self._batch + 1, self._surface.rows, self._surface.width)
            return self._networks.feed.kernels.empty(shape, self._surface.dtype)

    def _upload(self, batch: CardBatch, frame: Frame, place: int) -> None:
        kernels = self._networks.feed.kernels
        if isinstance(frame, CardFrame):
            kernels.take(frame.picture, self._surface, batch.array[place])
            return
        kernels.upload(self._surface.packed(frame), batch.array[place : place + 1])


def _painter(
    recipe: Recipe,
    networks: CardNetworks,
    surface: Surface,
    models: Models,
    analyst: CardAnalyst,
    overlay: Overlay | None,
    matte: bool,
) -> Painter:
    """The recipe's swapper, its restorer, or both; whichever is last lays the label."""
    swaps = [spec for spec in recipe.processors if spec.kind == SWAP]
    restores = [spec for spec in recipe.processors if spec.kind == RESTORE]
    last: Painter | None = None
    for spec in swaps:
        laid = None if restores else overlay
        if spec.model == MESH_WARP:
            painted = SwapSettings.model_validate(spec.settings)
            last = MeshPainter(networks, surface, painted, analyst, laid, matte=matte)
        else:
            settings = NeuralSwapSettings.model_validate(spec.settings)
            last = CardPainter(networks, surface, models, spec.model, settings, analyst, laid, matte=matte)
    for spec in restores:
        asked = RestoreSettings.model_validate(spec.settings)
        last = RestorePainter(last, networks, surface, models, spec.model, asked, analyst, overlay, matte=matte)
    if last is None:
        raise RecipeError("The recipe changes no face.", where=f"recipe {recipe.name}", do="Render it in memory.")
    return last


def _abandon(futures: Iterable[Future[Any]]) -> None:
    """Let what was not begun be, and wait for the rest, whatever comes of it."""
    for future in futures:
        if not future.cancel():
            future.exception()
