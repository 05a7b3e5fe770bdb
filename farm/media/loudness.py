"""Norms of loudness that a job may ask for, as named, versioned presets."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from farm.errors import NotFoundError, unknown


class LoudnessNorm(BaseModel):
    """`integrated` is the programme loudness in LUFS, `true_peak` the ceiling in dBTP."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: int
    title: str
    integrated: float
    true_peak: float

    @property
    def words(self) -> str:
        return f"{self.name}, version {self.version}"


LOUDNESS: dict[str, LoudnessNorm] = {
    norm.name: norm
    for norm in (
        LoudnessNorm(name="ebu-r128", version=1, title="EBU R 128, Europe's television", integrated=-23, true_peak=-1),
        LoudnessNorm(name="atsc-a85", version=1, title="ATSC A/85, television in the US", integrated=-24, true_peak=-2),
    )
}


def loudness_norm(name: str) -> LoudnessNorm:
    """The norm called `name`; NotFoundError names those there are."""
    try:
        return LOUDNESS[name]
    except KeyError:
        raise unknown(NotFoundError, "loudness", name, LOUDNESS) from None
