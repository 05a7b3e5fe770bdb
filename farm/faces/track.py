"""Faces over time, inside a finite window.

Nothing here remembers more than the window: what is said of frame n is a pure function of frames n - BEFORE to
n + AFTER, so that a chunk gives the same frames as the whole plate. Links between neighbouring frames depend on those
frames alone; a track is what is reached by following links from a face, and never leaves the window.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farm.faces.embed import SAME_PERSON, Embedding, unit
from farm.faces.geometry import head_pose
from farm.faces.hands import Hand
from farm.faces.mesh import INNER_LIPS, LEFT_EYE, OUTER_LIPS, RIGHT_EYE
from farm.faces.views import CloseUp, FaceView, FrameView

BEFORE = 8
AFTER = 8
EMBED_EVERY = 5
"""Frames whose index is a multiple are embedded: any track of five frames holds one. Fewer than AFTER."""
HANDS_EVERY = 4
"""Frames whose index is a multiple are searched for hands; those between look where near ones have them."""
_GAP = 4
_NEAR = 3.0
"""Frames: sharpness is measured every few frames, and changes within a few."""
CUT = 0.12
_QUICK = np.array(sorted({*INNER_LIPS, *OUTER_LIPS, *LEFT_EYE, *RIGHT_EYE, *range(468, 478)}))
_SLOW_WEIGHTS = {
    3: np.array([-2, 3, 6, 7, 6, 3, -2]) / 21,
    2: np.array([-3, 12, 17, 12, -3]) / 35,
    1: np.array([1, 2, 1]) / 4,
}
"""Savitzky-Golay smoothing of second order (1964): keeps position, speed and acceleration, adds no lag."""


def embeds(index: int) -> bool:
    """Whether the faces of the plate's frame `index` are embedded."""
    return index % EMBED_EVERY == 0


def shows_hands(index: int) -> bool:
    """Whether hands are looked for in the plate's frame `index`."""
    return index % HANDS_EVERY == 0


@dataclass(frozen=True, slots=True)
class Step:
    """A face of a track, `offset` frames from the one asked for."""

    offset: int
    view: FrameView
    face: FaceView


@dataclass(frozen=True, slots=True)
class Track:
    """The track of one face of one frame, cut to the window: steps by rising offset, offset 0 among them."""

    steps: tuple[Step, ...]

    @property
    def here(self) -> FaceView:
        return next(step.face for step in self.steps if step.offset == 0)

    def embedding(self) -> Embedding | None:
        """The weighted mean of the track's embeddings; None where it has none."""
        found = [(s.face.embedding, _worth(s.face)) for s in self.steps if s.face.embedding is not None]
        if not found:
            return None
        return unit(np.sum([e * w for e, w in found], axis=0))

    def sharpness(self) -> float | None:
        """How sharp the face is, nearer frames counting more; None where it was not measured."""
        found = [(s.offset, s.face.sharpness) for s in self.steps if s.face.sharpness is not None]
        if not found:
            return None
        offsets, values = np.array(found).T
        weights = np.exp(-0.5 * (offsets / _NEAR) ** 2)
        return float((values * weights).sum() / weights.sum())

    def points(self) -> NDArray[np.float64]:
        """Landmarks of offset 0, smoothed (478, 3); lids and lips less, for they move fast."""
        by_offset = {step.offset: step.face.points for step in self.steps}
        calm = _smoothed(by_offset, 3)
        calm[_QUICK] = _smoothed({offset: points[_QUICK] for offset, points in by_offset.items() if -3 < offset < 3}, 2)
        return calm


class Window:
    """The frame views around a frame, with the work that needs neighbours: links, gaps, hands.

    `push` frames in order; `ready` says of which frame everything is known; `tracks` gives its faces.
    """

    def __init__(self, analyst: CloseUp) -> None:
        self._analyst = analyst
        self._views: deque[FrameView] = deque()
        self._links: dict[int, dict[int, int]] = {}
        self._cuts: dict[int, bool] = {}
        self._tails: dict[int, list[FaceView]] = {}
        self._heads: dict[int, list[FaceView]] = {}

    def push(self, view: FrameView) -> None:
        if self._views:
            self._link(self._views[-1], view)
        self._views.append(view)
        while self._views[0].index < view.index - BEFORE - AFTER:
            gone = self._views.popleft().index
            self._links.pop(gone, None)
            self._cuts.pop(gone, None)
            self._tails.pop(gone, None)
            self._heads.pop(gone, None)

    def tracks(self, index: int) -> list[Track]:
        """The tracks of all faces of frame `index`, gaps filled, by the frames of its window alone."""
        views = {v.index: v for v in self._views if index - BEFORE <= v.index <= index + AFTER}
        faces = list(views[index].faces)
        chains = [self._chain(views, index, position) for position in range(len(faces))]
        return [Track(chain) for chain in [*chains, *self._filled(views, index, faces)]]

    def hands(self, track: Track) -> list[Hand]:
        """Hands near the track's face: those found in its frame and those of near frames, found again where they were.

        Two readings of one hand both count, for a hand painted over is worse than a bit of the old face left.
        """
        found = list(track.here.hands)
        view = next(step.view for step in track.steps if step.offset == 0)
        for step in track.steps:
            if step.offset == 0 or abs(step.offset) > HANDS_EVERY:
                continue
            for hand in step.face.hands:
                again = self._analyst.follow_hand(view, hand)
                if again is not None and not any(_same(again, other) for other in found):
                    found.append(again)
        return found

    def _link(self, first: FrameView, second: FrameView) -> None:
        """Note which face continues where, and embed the faces that begin here."""
        self._cuts[first.index] = is_cut(first, second)
        links = links_between(first.faces, second.faces) if not self._cuts[first.index] else {}
        self._links[first.index] = links
        continued = set(links.values())
        self._tails[first.index] = [face for position, face in enumerate(first.faces) if position not in links]
        self._heads[second.index] = [face for position, face in enumerate(second.faces) if position not in continued]
        for position, face in enumerate(second.faces):
            if position not in continued and face.embedding is None:
                self._analyst.embed(second, face)
                face.starts = True

    def _chain(self, views: dict[int, FrameView], index: int, position: int) -> tuple[Step, ...]:
        steps = [Step(0, views[index], views[index].faces[position])]
        steps += self._walk(views, index, position, 1)
        return tuple(sorted(steps + self._walk(views, index, position, -1), key=lambda step: step.offset))

    def _walk(self, views: dict[int, FrameView], index: int, position: int, step: int) -> list[Step]:
        steps: list[Step] = []
        at = index
        while at + step in views:
            links = self._links.get(at if step > 0 else at - 1, {})
            following = links.get(position) if step > 0 else _backwards(links).get(position)
            if following is None:
                break
            at, position = at + step, following
            steps.append(Step(at - index, views[at], self._as_seen(views, at, position)))
        return steps

    def _as_seen(self, views: dict[int, FrameView], at: int, position: int) -> FaceView:
        """The face, without what only a frame outside the window could tell (that the track starts there)."""
        face = views[at].faces[position]
        if face.starts and at == min(views) and at > 0:
            return replace(face, embedding=None, sharpness=None)
        return face

    def _filled(self, views: dict[int, FrameView], index: int, faces: list[FaceView]) -> list[tuple[Step, ...]]:
        """Tracks of faces that were missed in this frame but are seen shortly before and after."""
        chains: list[tuple[Step, ...]] = []
        for back in range(1, _GAP + 1):
            for ahead in range(1, _GAP + 2 - back):
                for tail, head in self._loose_ends(views, index - back, index + ahead):
                    share = back / (back + ahead)
                    guess = tail.points * (1 - share) + head.points * share
                    taken = [*faces, *(chain[0].face for chain in chains)]
                    if any(np.hypot(*(guess[:468, :2].mean(0) - f.centre)) < 0.5 * f.size for f in taken):
                        continue
                    found = self._analyst.refind(views[index], guess)
                    if found is not None and np.hypot(*(found.centre - guess[:468, :2].mean(0))) < 0.5 * tail.size:
                        if shows_hands(index):
                            self._analyst.find_hands(views[index], found)
                        steps = [Step(0, views[index], found)]
                        steps += self._from(views, index, -back, tail) + self._from(views, index, ahead, head)
                        chains.append(tuple(steps))
        return [tuple(sorted(chain, key=lambda step: step.offset)) for chain in chains]

    def _from(self, views: dict[int, FrameView], index: int, offset: int, face: FaceView) -> list[Step]:
        """The steps from `face`, `offset` frames from `index`, on to where its track leaves the window."""
        at = index + offset
        steps = self._walk(views, at, views[at].faces.index(face), 1 if offset > 0 else -1)
        return [Step(offset, views[at], face), *(replace(step, offset=step.offset + offset) for step in steps)]

    def _loose_ends(self, views: dict[int, FrameView], first: int, second: int) -> list[tuple[FaceView, FaceView]]:
        """Pairs of a track's last face in `first` and another's first face in `second` that look like one track."""
        if first not in views or second not in views:
            return []
        tails = self._tails.get(first, views[first].faces)
        heads = self._heads.get(second, views[second].faces)
        if not tails or not heads or any(self._cuts.get(i, False) for i in range(first, second)):
            return []
        return [(tails[a], heads[b]) for a, b in links_between(tails, heads).items()]


def is_cut(first: FrameView, second: FrameView) -> bool:
    """Whether the scene changes between two neighbouring frames: their small grey copies differ all over.

    It does where the median of the differences is over CUT; only where half of them are has it to be worked out.
    """
    apart = np.abs(first.small - second.small)
    over, half = int(np.count_nonzero(apart > CUT)), apart.size / 2
    return over > half if over != half else float(np.median(apart)) > CUT


def links_between(first: list[FaceView], second: list[FaceView]) -> dict[int, int]:
    """Which face of `first` continues as which of `second`, by position, size and, where known, by embedding.

    Greedy from the cheapest pair up; a pair farther apart than the faces are large, or of different people, is none.
    """
    pairs = sorted(
        (cost, a, b) for a, f in enumerate(first) for b, s in enumerate(second) if (cost := _cost(f, s)) < 1.0
    )
    links: dict[int, int] = {}
    for _, a, b in pairs:
        if a not in links and b not in links.values():
            links[a] = b
    return links


def _cost(first: FaceView, second: FaceView) -> float:
    size = (first.size + second.size) / 2
    cost = float(np.hypot(*(first.centre - second.centre))) / size + abs(float(np.log(first.size / second.size)))
    # In a crowd looks decide, and crowded faces are always embedded. Alone, a bad picture must not break a track; and
    # an embedding made because the track starts must not count, for other chunks may not see that start.
    if first.crowded and second.crowded and first.embedding is not None and second.embedding is not None:
        alike = float(first.embedding @ second.embedding)
        cost += 1.0 if alike < SAME_PERSON / 2 else 0.5 * (1 - alike)
    return cost


def _backwards(links: dict[int, int]) -> dict[int, int]:
    return {b: a for a, b in links.items()}


def _worth(face: FaceView) -> float:
    """How much an embedding of this face tells: less from the side and when the network is unsure.

    Kept with the face, for every frame of its window asks.
    """
    if face.worth is None:
        pose = head_pose(face.points)
        face.worth = max(0.05, float(np.cos(np.radians(min(80.0, abs(pose.yaw)))))) * face.presence
    return face.worth


def _smoothed(by_offset: dict[int, NDArray[np.float64]], half: int) -> NDArray[np.float64]:
    while half > 0 and not all(offset in by_offset for offset in range(-half, half + 1)):
        half -= 1
    if half == 0:
        return by_offset[0].copy()
    # One call for all: each of many would let other threads in between.
    stacked = np.array([by_offset[offset] for offset in range(-half, half + 1)])
    return np.asarray(np.einsum("o,okc->kc", _SLOW_WEIGHTS[half], stacked))


def _same(a: Hand, b: Hand) -> bool:
    distance = float(np.hypot(*(a.points - b.points).T).mean())
    return distance < 0.1 * float(np.hypot(*(b.points[0] - b.points[9])))
