"""The project's own sample plate, with the truth about every frame of it."""

from farm.sample.generator import Sample, Scene, generate
from farm.sample.portrait import IDENTITIES, portrait_picture
from farm.sample.truth import Truth

__all__ = ["IDENTITIES", "Sample", "Scene", "Truth", "generate", "portrait_picture"]
