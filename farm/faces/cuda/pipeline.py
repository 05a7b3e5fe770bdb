"""The render of a range of frames on a card, or on its NumPy twin: batches seen, tracked, swapped and labelled there.

Tracking, mapping, masks by region and reports are those of `farm.faces.pipeline`; only the array work is another back
end's. The result of frame n depends on frames n - before to n + after (see `context`) and on nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.analyst import CardAnalyst, CardBatch, head_of
from farm.faces.cuda.backend import Array
from farm.faces.cuda.look import CADENCE
from farm.faces.cuda.networks import CardNetworks
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import CardPainter, Painted, Planned
from farm.faces.cuda.rates import Rates
from farm.faces.cuda.surface import Surface
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import Mapping
from farm.faces.neural_settings import NeuralSwapSettings
from farm.faces.pipeline import Rendered
from farm.faces.report import FrameReport
from farm.faces.roles import Roles
from farm.faces.track import AFTER, BEFORE, Window
from farm.faces.views import FrameView
from farm.inference.session import Models
from farm.media.facts import PlateFacts
from farm.media.frame import CardFrame, Frame
from farm.recipe import Recipe

CONTEXT = (BEFORE + CADENCE - 1, AFTER + CADENCE - 1)
"""Frames needed before and after each frame: the window, and the frames on whose lines its ends lie."""


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
    """Renders frames by a recipe of one neural swapper; `farm.faces.cuda.fit` says which recipes and plates fit.

    Parameters
    ----------
    overlay: the visible label, laid over every frame. matte: whether `Rendered.mask` is wanted, which is worked out on
    the processor. watcher: sees frames of the plate, for callers that cannot look at those that they give.
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
    ) -> None:
        self._roles = Roles(recipe, cast_mapping, identities, facts)
        (spec,) = recipe.processors
        settings = NeuralSwapSettings.model_validate(spec.settings)
        self._kernels, self._surface = networks.kernels, surface
        self._batch = networks.batch
        self._analyst = CardAnalyst(networks, surface, models, facts, hands=settings.mask.hands)
        self._painter = CardPainter(
            networks, surface, models, spec.model, settings, self._analyst, overlay, matte=matte
        )
        self._rates = rates or Rates()
        self._watcher = watcher
        self._free: list[Array] = []

    def process(self, frames: Iterable[Frame], first: int, last: int) -> Iterator[Rendered]:
        """Frames [first, last), in order, of `frames` from first - before to last + after (fewer at the plate's ends).

        Memory: three batches on the device, however long the range.
        """
        window = Window(self._analyst)
        waiting: deque[_Pending] = deque()
        undecided: deque[tuple[_Pending, FrameView]] = deque()
        for batch in self._batches(frames, last + self.context[1]):
            with self._rates.timed("look", len(batch)):
                views = self._analyst.look(batch)
            pending = _Pending(batch)
            waiting.append(pending)
            with self._rates.timed("track", len(batch)):
                for view in views:
                    window.push(view)
                    undecided.append((pending, view))
                    while undecided and undecided[0][1].index + AFTER <= view.index:
                        self._decide(window, *undecided.popleft(), first, last)
            while waiting and waiting[0].decided:
                yield from self._painted(waiting.popleft(), first, last)
        while undecided:
            self._decide(window, *undecided.popleft(), first, last)
        while waiting:
            yield from self._painted(waiting.popleft(), first, last)

    def _decide(self, window: Window, pending: _Pending, view: FrameView, first: int, last: int) -> None:
        """Whose faces the frame shows, by its window, while that is complete and its samples are the plate's own."""
        faces = []
        if first <= view.index < last:
            for track in window.tracks(view.index):
                face = self._roles.face(view, track)
                hands = tuple(window.hands(track)) if face.refused is None else ()
                faces.append(Planned(face, hands, self._roles.identity(face)))
        pending.planned.append(faces)

    def _painted(self, pending: _Pending, first: int, last: int) -> Iterator[Rendered]:
        batch = pending.batch
        wanted = [place for place, head in enumerate(batch.heads) if first <= head.index < last]
        if wanted:
            self._watch(batch, wanted)
            with self._rates.timed("swap", len(wanted)):
                done = self._painter.paint(batch, pending.planned)
            with self._rates.timed("fetch", len(wanted)):
                samples = self._kernels.download(batch.array[wanted[0] : wanted[-1] + 1])
            for place, picture in zip(wanted, samples, strict=True):
                yield self._finished(batch.heads[place], picture, done, place)
        self._free.append(batch.array)

    def _watch(self, batch: CardBatch, places: Sequence[int]) -> None:
        for place in places:
            if self._watcher is not None and self._watcher.wants(batch.heads[place].index):
                self._watcher.seen(self._analyst.fetched(batch, place))

    def _finished(self, head: Frame, picture: NDArray[np.generic], done: Painted, place: int) -> Rendered:
        report = FrameReport(index=head.index, pts=head.pts, faces=tuple(done.reports[place]))
        return Rendered(self._surface.unpack(picture, head), report, done.masks.get(place))

    def _batches(self, frames: Iterable[Frame], end: int) -> Iterator[CardBatch]:
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
        if self._free:
            return self._free.pop()
        return self._kernels.empty((self._batch + 1, self._surface.rows, self._surface.width), self._surface.dtype)

    def _upload(self, batch: CardBatch, frame: Frame, place: int) -> None:
        with self._rates.timed("upload", 1):
            if isinstance(frame, CardFrame):
                self._kernels.take(frame.picture, self._surface, batch.array[place])
                return
            picture = np.empty((1, self._surface.rows, self._surface.width), self._surface.dtype)
            self._surface.pack(frame, picture[0])
            self._kernels.upload(picture, batch.array[place : place + 1])
