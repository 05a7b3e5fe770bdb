"""What the frames of a plate turned out to be, where headers promised something else: in words, with times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farm.media.facts import PlateFacts, PlateWarning
from farm.media.timeline import Timeline
from farm.words import counted

_MOST_PLACES = 12
_SECONDS_APART, _SHARE_APART = 1.0, 0.1


def timeline_warnings(facts: PlateFacts, timeline: Timeline) -> tuple[PlateWarning, ...]:
    """Warnings that only the whole timeline can give: frames that are lost or faulty, a header that is wrong."""
    return tuple(_warnings(facts, timeline))


def _warnings(facts: PlateFacts, timeline: Timeline) -> Iterator[PlateWarning]:
    if lost := timeline.concealed.tolist():
        text = (
            f"Undecodable: {counted(len(lost), 'frame')}; the one before is repeated instead: {places(lost, timeline)}."
        )
        yield PlateWarning(code="repeated", text=text)
    if faulty := timeline.damaged.tolist():
        text = f"Decoded with faults: {counted(len(faulty), 'frame')}: {places(faulty, timeline)}."
        yield PlateWarning(code="faulty", text=text)
    said, found = facts.duration, timeline.seconds(0, len(timeline))
    if said is not None and abs(float(said) - found) > max(_SECONDS_APART, _SHARE_APART * found):
        text = f"The container says that it lasts {float(said):.2f} s; its pictures last {found:.2f} s."
        yield PlateWarning(code="wrong_duration", text=text)


def places(frames: Sequence[int], timeline: Timeline) -> str:
    """Rising frame indexes as words: "40 to 43 (at 1.667 s), 76 (at 3.167 s)", from the plate's first frame."""
    runs: list[list[int]] = []
    for frame in frames:
        if runs and runs[-1][1] == frame - 1:
            runs[-1][1] = frame
        else:
            runs.append([frame, frame])
    start = int(timeline.pts[0])
    named = [
        f"{first if first == last else f'{first} to {last}'} "
        f"(at {float((int(timeline.pts[first]) - start) * timeline.time_base):.3f} s)"
        for first, last in runs[:_MOST_PLACES]
    ]
    more = len(runs) - len(named)
    return ", ".join(named) + (f" and in {more} more places" if more > 0 else "")
