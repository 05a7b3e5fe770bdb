"""The render of a range of frames: seen in parallel, tracked in order, changed in parallel, given out in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingOf
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.ahead import ahead
from farm.faces.identity import PreparedIdentity
from farm.faces.light import target_of
from farm.faces.mapping import Mapping
from farm.faces.mirror import flipped, flipped_report, is_mirrored, straight_facts
from farm.faces.network import Networks
from farm.faces.processors import Work, processors_of
from farm.faces.report import FaceReport, FrameReport, Outcome
from farm.faces.roles import Face, Roles, by_distance
from farm.faces.spans import CADENCE, Spans
from farm.faces.target import Patch
from farm.faces.track import AFTER, BEFORE, Window, embeds, shows_hands
from farm.faces.views import Analyst, FaceView, Foresight, FrameView
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Rendered:
    """A finished frame, what was done to it, and where: uint8[h, w], 255 fully changed, 0 bit for bit the plate's.

    `mask` is None where nothing was changed. `there`: luma and chroma of the frame on the card, for an encoder there.
    """

    frame: Frame
    report: FrameReport
    mask: NDArray[np.uint8] | None
    there: tuple[Any, Any] | None = None


class FacePipeline:
    """Renders frames by a recipe.

    The frame n of the result depends on frames n - before to n + after (see `context`) and on what is given here,
    never on where a chunk begins. With a recipe that changes no faces, no model is loaded.

    Parameters
    ----------
    threads: frames that are worked on at the same time; the result does not depend on it.
    """

    def __init__(
        self,
        recipe: Recipe,
        cast_mapping: Mapping,
        identities: MappingOf[str, PreparedIdentity],
        models: Networks,
        facts: PlateFacts,
        *,
        threads: int = 2,
    ) -> None:
        self._given, self._mirrored = facts, is_mirrored(facts) and recipe.changes_faces
        facts = straight_facts(facts) if self._mirrored else facts
        self._straight = facts
        self._roles = Roles(recipe, cast_mapping, identities, facts)
        self._threads = threads
        self._processors = processors_of(recipe, models)
        chosen = any(len(identities[name].bank) > 1 for name in cast_mapping.identities if name in identities)
        self._analyst: Analyst | None = None
        if self._processors.faces:
            see = self._processors.sight
            self._analyst = Analyst(
                models,
                facts,
                detector=recipe.detector,
                hands=see.hands,
                skin=see.skin,
                expressions=chosen and see.skin,
                fine=see.fine,
            )

    @property
    def context(self) -> tuple[int, int]:
        """Frames needed before and after each frame."""
        return (BEFORE + CADENCE - 1, AFTER + CADENCE - 1) if self._processors.faces else (0, 0)

    @property
    def looks(self) -> bool:
        """Whether faces are looked for at all."""
        return self._analyst is not None

    def process(self, frames: Iterable[Frame], first: int, last: int) -> Iterator[Rendered]:
        """Frames [first, last), in order, of `frames` from first - before to last + after (fewer at the plate's ends).

        The frames are changed in place, but for those of a mirrored plate, which are copied. Memory: the window and a
        few frames more, however long the range.
        """
        if self._mirrored:
            straight = (flipped(frame, self._straight) for frame in frames)
            yield from map(self._as_stored, self._processed_range(straight, first, last))
        else:
            yield from self._processed_range(frames, first, last)

    def _as_stored(self, rendered: Rendered) -> Rendered:
        """A rendered frame of a mirrored plate, flipped back."""
        width, mask = rendered.frame.width // self._processors.scale, rendered.mask
        frame = flipped(rendered.frame, self._given)
        back = None if mask is None else np.ascontiguousarray(mask[:, ::-1])
        return Rendered(frame, flipped_report(rendered.report, width), back)

    def _processed_range(self, frames: Iterable[Frame], first: int, last: int) -> Iterator[Rendered]:
        if self._analyst is None and not self._processors.frames:
            for frame in frames:
                if first <= frame.index < last:
                    yield Rendered(frame, FrameReport(index=frame.index, pts=frame.pts, looked=False), None)
            return
        if self._analyst is None:
            wanted = (frame for frame in frames if first <= frame.index < last)
            with ThreadPoolExecutor(self._threads, thread_name_prefix="faces") as pool:
                yield from ahead(pool, lambda frame: self._finished(frame, (), None), wanted, self._threads)
            return
        with ThreadPoolExecutor(self._threads, thread_name_prefix="faces") as pool:
            looks = _Looks(self._analyst)
            views = Spans(pool, looks, first - BEFORE, last + AFTER, depth=self._threads + 1).seen(frames)
            yield from self._rendered(views, pool, self._analyst, first, last, after=AFTER, depth=self._threads)

    def follow(self, frames: Iterable[Frame], *, after: int, cadence: Callable[[], int]) -> Iterator[Rendered]:
        """The frames of a stream that goes on, each as soon as it can be had; indexes count up from 0.

        A frame is given out when `after` more have been seen, fewer than `process` waits for: smoothing and gap
        filling see less, and the delay is so much shorter. `cadence` says how seldom the detector looks: at every
        frame (1), or at every n-th one, with the faces of the frame before found again in between. Unlike `process`
        this depends on how long things take.
        """
        if self._analyst is None:
            yield from self.process(frames, 0, sys.maxsize)
            return
        if self._mirrored:
            frames = (flipped(frame, self._straight) for frame in frames)
        finished = self._followed(frames, self._analyst, after, cadence)
        yield from map(self._as_stored, finished) if self._mirrored else finished

    def _followed(
        self, frames: Iterable[Frame], analyst: Analyst, after: int, cadence: Callable[[], int]
    ) -> Iterator[Rendered]:
        with ThreadPoolExecutor(2, thread_name_prefix="faces") as pool:
            views = self._glanced(frames, pool, analyst, cadence)
            yield from self._rendered(views, pool, analyst, 0, sys.maxsize, after=after, depth=1)

    def _glanced(
        self, frames: Iterable[Frame], pool: ThreadPoolExecutor, analyst: Analyst, cadence: Callable[[], int]
    ) -> Iterator[FrameView]:
        known: list[FaceView] = []

        def look(frame: Frame) -> FrameView:
            hands = shows_hands(frame.index)
            if frame.index % cadence() == 0 or not known:
                return analyst.look(frame, embed=embeds(frame.index), hands=hands)
            return analyst.glance(frame, tuple(known), hands=hands)

        for view in ahead(pool, look, frames, 2):
            known[:] = view.faces
            yield view

    def _rendered(
        self,
        views: Iterator[FrameView],
        pool: ThreadPoolExecutor,
        analyst: Analyst,
        first: int,
        last: int,
        *,
        after: int,
        depth: int,
    ) -> Iterator[Rendered]:
        window = Window(analyst)

        def ready() -> Iterator[tuple[FrameView, list[Face]]]:
            waiting: deque[FrameView] = deque()
            for view in chain(views, [None]):
                if view is not None:
                    window.push(view)
                    if first <= view.index < last:
                        waiting.append(view)
                while waiting and (view is None or view.index >= waiting[0].index + after):
                    due = waiting.popleft()
                    tracks = window.tracks(due.index)
                    yield due, [self._roles.face(due, track) for track in tracks]

        def render(item: tuple[FrameView, list[Face]]) -> Rendered:
            return self._changed(item[0], item[1], window)

        yield from ahead(pool, render, ready(), depth)

    def _changed(self, view: FrameView, faces: list[Face], window: Window) -> Rendered:
        frame = view.frame
        mask: NDArray[np.uint8] | None = None
        reports: list[FaceReport] = []
        for face in by_distance(faces):
            outcome = face.refused
            patches: list[Patch] = []
            if outcome is None:
                outcome, patches = self._processed(frame, face, window)
                for patch in patches:
                    mask = joined(mask, patch.mask, patch.box, frame)
            reports.append(face.report(outcome, redone=any(patch.redone for patch in patches)))
        return self._finished(frame, tuple(reports), mask)

    def _processed(self, frame: Frame, face: Face, window: Window) -> tuple[Outcome, list[Patch]]:
        """Run the processors of faces. What was swapped stays swapped, whether a restorer suits it or not."""
        target = target_of(face.track, window.hands(face.track), face.rest)
        work = Work(target, self._roles.identity(face), face.identity or "")
        patches: list[Patch] = []
        said: Outcome | None = None
        for processor in self._processors.faces:
            outcome, patch = processor.apply(frame, work)
            if patch is not None:
                patches.append(patch)
            if outcome in (Outcome.SWAPPED, Outcome.RESTORED):
                said = said or outcome
            elif said is None or outcome is Outcome.NOT_RESTORED:
                return outcome, patches
        return said or Outcome.NOT_MAPPED, patches

    def _finished(self, frame: Frame, faces: tuple[FaceReport, ...], mask: NDArray[np.uint8] | None) -> Rendered:
        """The frame after the processors of whole frames; the mask grows with it."""
        index, pts, restored = frame.index, frame.pts, True
        for processor in self._processors.frames:
            frame, good = processor.apply(frame)
            restored &= good
            if mask is not None and processor.scale > 1:
                mask = np.repeat(np.repeat(mask, processor.scale, axis=0), processor.scale, axis=1)
        looked = self._analyst is not None
        report = FrameReport(index=index, pts=pts, faces=faces, unrestored=not restored, looked=looked)
        return Rendered(frame, report, mask)


@dataclass(frozen=True, slots=True)
class _Looks:
    """An analyst that embeds faces and looks for hands in some frames only."""

    analyst: Analyst

    def full(self, frame: Frame) -> FrameView:
        return self.analyst.look(frame, embed=embeds(frame.index), hands=shows_hands(frame.index))

    def between(self, frame: Frame, foretold: Foresight) -> FrameView:
        return self.analyst.look_between(frame, foretold, embed=embeds(frame.index), hands=shows_hands(frame.index))


def joined(
    mask: NDArray[np.uint8] | None, patch: NDArray[np.float32], box: tuple[int, int, int, int], frame: Frame
) -> NDArray[np.uint8]:
    """`mask` (h, w; None for an empty one) of `frame` with a patch's in its box: the stronger of both counts."""
    whole = np.zeros((frame.height, frame.width), np.uint8) if mask is None else mask
    x0, y0, x1, y1 = box
    # Any change at all counts as 1, so that 0 means untouched.
    level = np.where(patch > 0, np.maximum(1, np.round(patch * 255)), 0).astype(np.uint8)
    whole[y0:y1, x0:x1] = np.maximum(whole[y0:y1, x0:x1], level)
    return whole
