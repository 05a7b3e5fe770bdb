"""Everything that a merge knows of the film it makes, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.timeline import Timeline
from farm.merger.carry import Carried, carriage
from farm.merger.clock import shift_of


@dataclass(frozen=True)
class Film:
    """A plate and what is to be made of it.

    `carried` says what becomes of the plate's other streams; `shift` seconds are added to every time stamp; `metadata`
    goes into the file's global tags. `untouched`: every frame is the plate's own, no processor ran. `dropped` are
    the numbers of packets that cannot be copied, by stream.
    """

    plate: Path
    facts: PlateFacts
    timeline: Timeline
    plan: EncoderPlan
    carried: tuple[Carried, ...]
    shift: Fraction = Fraction(0)
    metadata: Mapping[str, str] = field(default_factory=dict)
    untouched: bool = False
    dropped: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        plate: Path,
        facts: PlateFacts,
        timeline: Timeline,
        plan: EncoderPlan,
        metadata: Mapping[str, str] | None = None,
        *,
        untouched: bool = False,
    ) -> Film:
        """The film with carriage and shift worked out."""
        carried, shift = carriage(facts, plan), shift_of(facts, timeline)
        return cls(plate, facts, timeline, plan, carried, shift, metadata or {}, untouched)
