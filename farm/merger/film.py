"""Everything that a merge knows of the film it makes, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.timeline import Timeline
from farm.merger.carry import Carried, Way, carriage
from farm.merger.clock import shift_of
from farm.merger.loudness import Measured, measure


@dataclass(frozen=True)
class Film:
    """A plate and what is to be made of it.

    `carried` says what becomes of the plate's other streams; `shift` seconds are added to every time stamp; `metadata`
    goes into the file's global tags. `untouched`: every frame is the plate's own, no processor ran. `dropped` are
    the numbers of packets that cannot be copied, by stream. `loudness` is that of the sounds which are brought to the
    plan's norm, by stream, once it is measured.
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
    loudness: Mapping[int, Measured] = field(default_factory=dict)

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

    def measured(self) -> Film:
        """The film with its sounds measured, where the plan has a norm for them; silence stays as it is. FarmError."""
        if self.plan.loudness is None:
            return self
        demuxer = self.facts.container.split(",")[0]
        wanted = [item.index for item in self.carried if item.kind == "audio" and item.way is Way.CONVERT]
        found = {index: measure(self.plate, demuxer, index) for index in wanted}
        loud = {index: measured for index, measured in found.items() if not measured.silent}
        plain = {item.index: item for item in carriage(self.facts, self.plan.model_copy(update={"loudness": None}))}
        carried = tuple(
            plain[item.index] if item.index in found and item.index not in loud else item for item in self.carried
        )
        return replace(self, carried=carried, loudness=loud)
