"""Who becomes whom: the request in words, and the decision that is shipped to every chunk."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from farm.errors import InputError, NotFoundError, unknown
from farm.faces.cast import Cast, CastMember
from farm.faces.embed import SAME_PERSON, Embedding
from farm.faces.extent import Extent, Point, refusal
from farm.faces.identity import PreparedIdentity
from farm.faces.report import Outcome
from farm.words import counted


class MappingMode(StrEnum):
    """lead: the person with the most screen time. all: every face. cast: by cast member. reference: by picture."""

    LEAD = "lead"
    ALL = "all"
    CAST = "cast"
    REFERENCE = "reference"


class MappingRequest(BaseModel):
    """What a person asks for.

    Attributes
    ----------
    mode: see MappingMode. identity: name of the identity for lead and all.
    assignments: for cast, identity by cast member id. references: for reference, identity by the name of the prepared
        picture of the person to be replaced.
    threshold: cosine similarity from which a face is taken for a person (references: at least .363).
    include, exclude: parts of the plate (times, regions, or both) in which faces are changed, and in which they are
        not; nothing given means everywhere. A face lies where its middle lies.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: MappingMode = MappingMode.LEAD
    identity: str | None = None
    assignments: dict[str, str] = Field(default_factory=dict)
    references: dict[str, str] = Field(default_factory=dict)
    threshold: float = Field(default=0.3, gt=0, lt=1)
    include: tuple[Extent, ...] = ()
    exclude: tuple[Extent, ...] = ()

    @model_validator(mode="after")
    def _says_who(self) -> MappingRequest:
        needed = {
            MappingMode.LEAD: ("identity", self.identity),
            MappingMode.ALL: ("identity", self.identity),
            MappingMode.CAST: ("assignments", self.assignments),
            MappingMode.REFERENCE: ("references", self.references),
        }
        field, value = needed[self.mode]
        if not value:
            raise ValueError(f"mode {self.mode.value!r} needs {field!r}")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class MappedPerson:
    """A person of the plate, their form at rest, and the name of the identity that replaces them (None: untouched)."""

    id: str
    embedding: Embedding
    identity: str | None
    rest: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mapping:
    """The decision. `everyone` names the identity for faces of nobody in `people` (None: they stay untouched)."""

    people: tuple[MappedPerson, ...] = ()
    everyone: str | None = None
    threshold: float = 0.3
    include: tuple[Extent, ...] = ()
    exclude: tuple[Extent, ...] = ()

    def refusal(self, seconds: float, point: Point) -> Outcome | None:
        """Why a face is not changed `seconds` after the plate's first frame at `point` of the plate as it is shown."""
        return refusal(self.include, self.exclude, seconds, point)

    def who(self, embedding: Embedding | None) -> tuple[MappedPerson | None, float]:
        """The most similar person and the similarity; None where nobody is over the threshold."""
        if embedding is None or not self.people:
            return None, 0.0
        likeness = [float(person.embedding @ embedding) for person in self.people]
        best = int(np.argmax(likeness))
        return (self.people[best] if likeness[best] >= self.threshold else None), likeness[best]

    @property
    def identities(self) -> frozenset[str]:
        named = {person.identity for person in self.people if person.identity is not None}
        return frozenset(named | ({self.everyone} if self.everyone is not None else set()))

    def to_bytes(self) -> bytes:
        """A compact, versioned form (NumPy .npz, no pickle)."""
        head = {
            "everyone": self.everyone,
            "threshold": self.threshold,
            "include": [span.model_dump() for span in self.include],
            "exclude": [span.model_dump() for span in self.exclude],
            "people": [{"id": p.id, "identity": p.identity} for p in self.people],
        }
        arrays = {f"embedding_{i}": p.embedding for i, p in enumerate(self.people)}
        rests = {f"rest_{i}": p.rest for i, p in enumerate(self.people)}
        text = np.array(json.dumps(head))
        out = io.BytesIO()
        np.savez_compressed(out, allow_pickle=False, version=np.array(1), head=text, **arrays, **rests)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Mapping:
        with np.load(io.BytesIO(data), allow_pickle=False) as z:
            head = json.loads(str(z["head"]))
            people = tuple(
                MappedPerson(p["id"], z[f"embedding_{i}"], p["identity"], z[f"rest_{i}"])
                for i, p in enumerate(head["people"])
            )
            spans = {k: tuple(Extent.model_validate(s) for s in head[k]) for k in ("include", "exclude")}
        return cls(people, head["everyone"], head["threshold"], spans["include"], spans["exclude"])


def resolve(request: MappingRequest, cast: Cast, identities: MappingOf[str, PreparedIdentity]) -> Mapping:
    """Decide the mapping of a job.

    Raises NotFoundError for identities or cast members that do not exist, InputError where the plate shows no face
    (lead and all included: a job that would change nothing is not what was asked for).
    """
    for name in _named(request):
        if name not in identities:
            raise unknown(NotFoundError, "identity", name, sorted(identities), where="mapping")
    if not cast.members:
        raise InputError(
            f"No face was found in {counted(cast.frames_seen, 'frame')} looked at.",
            where="the plate",
            do="Check that this is the right plate; to pass it through unchanged, use the recipe 'passthrough'.",
        )
    people, everyone = _people(request, cast, identities)
    if request.mode is MappingMode.REFERENCE and not any(person.identity for person in people):
        raise InputError(
            f"Of {counted(len(people), 'person', 'people')} in the plate nobody looks like the reference pictures.",
            where="mapping",
            do="Send another picture of the person, or choose from the cast by hand.",
        )
    return Mapping(people, everyone, request.threshold, request.include, request.exclude)


def _named(request: MappingRequest) -> list[str]:
    if request.mode is MappingMode.CAST:
        return sorted(set(request.assignments.values()))
    if request.mode is MappingMode.REFERENCE:
        return sorted({*request.references, *request.references.values()})
    return [request.identity] if request.identity else []


def _people(
    request: MappingRequest, cast: Cast, identities: MappingOf[str, PreparedIdentity]
) -> tuple[tuple[MappedPerson, ...], str | None]:
    if request.mode is MappingMode.ALL:
        return tuple(_person(m, request.identity) for m in cast.members), request.identity
    if request.mode is MappingMode.CAST:
        known = [member.id for member in cast.members]
        for name in request.assignments:
            if name not in known:
                raise NotFoundError(
                    f"There is no cast member {name!r}.", where="mapping", do=f"Choose of: {', '.join(known)}."
                )
        return tuple(_person(m, request.assignments.get(m.id)) for m in cast.members), None
    if request.mode is MappingMode.REFERENCE:
        return tuple(_person(m, _referred(m, request, identities)) for m in cast.members), None
    return tuple(_person(m, request.identity if m is cast.lead else None) for m in cast.members), None


def _person(member: CastMember, identity: str | None) -> MappedPerson:
    return MappedPerson(member.id, member.embedding, identity, member.rest)


def _referred(member: CastMember, request: MappingRequest, identities: MappingOf[str, PreparedIdentity]) -> str | None:
    """The identity whose reference picture this member is most like, if over the threshold."""
    likeness = {name: float(identities[name].embedding @ member.embedding) for name in sorted(request.references)}
    best = max(likeness, key=lambda name: likeness[name])
    return request.references[best] if likeness[best] >= max(request.threshold, SAME_PERSON) else None
