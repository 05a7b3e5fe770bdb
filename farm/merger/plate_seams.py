"""What the plate shows at the seams between chunks: decoded from the plate anew, apart from all that rendered it."""

from __future__ import annotations

from collections.abc import Sequence

from farm.media.deliverables import Source
from farm.media.look import look_of
from farm.media.peek import Peeker
from farm.media.writer import ChunkFacts
from farm.merger.film import Film
from farm.merger.side_by_side import Tick

_SHARE = 10
_LEAST_DECODED = 1000
"""Frames to decode for all seams: a tenth of the film, or so many. Seams far from a key frame may go without."""
_REORDERED = 16


def is_comparable(film: Film) -> bool:
    """Whether the deliverable shows the plate's own samples, so that the two can be compared at all."""
    plan, video = film.plan, film.facts.video
    same_size = (plan.width, plan.height) == (video.width, video.height)
    as_is = plan.source is Source.PICTURE and not plan.filters and not plan.burn_in
    # Where packets did not tell which frames there are, they do not tell which one is looked at either.
    return film.untouched and as_is and same_size and not film.timeline.decoded


def plate_looks(film: Film, chunks: Sequence[ChunkFacts], tick: Tick) -> dict[int, str]:
    """The plate's looks (`farm.media.look`) by frame: of the last frame before each seam and the first one after it.

    A seam that it takes too long to get to is left out, or its last frame is. `tick` is called with every seam. Raises
    InputError where the plate cannot be opened.
    """
    seams = [chunk.first for chunk in chunks[1:]]
    if not seams or not is_comparable(film):
        return {}
    most = max(_LEAST_DECODED, len(film.timeline) // _SHARE) // len(seams)
    peeker, looks = Peeker(film.plate, film.facts), dict[int, str]()
    try:
        for seam in seams:
            tick()
            looks |= _looks_at(film, peeker, seam, most)
    finally:
        peeker.close()
    return looks


def _looks_at(film: Film, peeker: Peeker, seam: int, most: int) -> dict[int, str]:
    timeline = film.timeline
    for frames in ((seam - 1, seam), (seam,)):
        start = frames[0]
        while start > 0 and not timeline.key[start]:
            start -= 1
        if seam - start + 1 <= most:
            wanted = {int(timeline.pts[frame]): frame for frame in frames}
            found = peeker.look(int(timeline.pts[start]), wanted, most=seam - start + 1 + _REORDERED)
            return {frame.index: look_of(frame.planes[0], frame.format.name) for frame in found}
    return {}
