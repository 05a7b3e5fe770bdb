"""What is asked of the farm: one job, as checked, plain data."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from farm.recipe import Recipe

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*$")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Plain(BaseModel):
    """Frozen, closed, JSON-shaped."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Located(Plain):
    object_key: str | None = None
    uri: str | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.object_key is None) == (self.uri is None):
            raise ValueError("give exactly one of object_key (in the farm's store) and uri (s3://...)")
        return self


class PlateRef(_Located):
    """The plate: an object of the farm's store or a URI. `sha256` may be missing for a URI that nobody has read."""

    sha256: Sha256 | None = None
    size: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.object_key is not None and self.sha256 is None:
            raise ValueError("an object of the store needs its sha256")
        return self


class PictureRef(_Located):
    """A reference picture."""

    sha256: Sha256


class IdentityRef(Plain):
    """A face to be put in. `label` is how the mapping names it; `face` picks one where a picture shows several."""

    label: Label
    pictures: tuple[PictureRef, ...] = Field(min_length=1)
    face: int | None = Field(default=None, ge=0)


class Needed(Plain):
    """A job that must have completed (`hard`) or ended in any way before this one starts."""

    job_id: str
    hard: bool = True


class JobRequest(Plain):
    """A job as it is submitted.

    `mapping` is a MappingRequest as JSON (see farm.faces.mapping), opaque here. `deliverables` are names that
    farm.media.deliverables knows. `tags`: only workers that have all of them get the job's tasks. `vram_mb`, `models`
    and `codecs` are what a render slot must offer. `max_attempts` limits the charged tries of each task, `max_retries`
    those of all of the job's tasks together; it is the control plane's alone and not in what workers read.
    `consent` (the grant) and `permit` are kept with the job for provenance; they are checked elsewhere.
    """

    project: Label = "default"
    owner: Annotated[str, StringConstraints(max_length=200)] = ""
    title: Annotated[str, StringConstraints(max_length=200)] = ""
    batch: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    plate: PlateRef
    identities: tuple[IdentityRef, ...] = ()
    mapping: dict[str, Any] | None = None
    recipe: Recipe
    deliverables: tuple[Name, ...] = Field(min_length=1)
    options: dict[str, Any] = Field(default_factory=dict)
    chunk_seconds: float = Field(default=20.0, gt=0, le=600)
    priority: int = Field(default=50, ge=0, le=100)
    tags: tuple[Name, ...] = ()
    vram_mb: int = Field(default=0, ge=0)
    models: tuple[Name, ...] = ()
    codecs: tuple[Name, ...] = ()
    max_running: int | None = Field(default=None, gt=0)
    max_attempts: int = Field(default=3, gt=0, le=20)
    max_retries: int | None = Field(default=None, ge=0, exclude=True)
    deadline: datetime | None = None
    needs: tuple[Needed, ...] = ()
    consent: dict[str, Any] | None = None
    permit: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for what, names in (
            ("identities", [i.label for i in self.identities]),
            ("deliverables", list(self.deliverables)),
            ("needs", [n.job_id for n in self.needs]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"{what}: every name may appear once only")
        return self

    @property
    def needs_cast(self) -> bool:
        """Whether anybody must be found in the plate before frames can be rendered."""
        return self.recipe.puts_in_faces

    def digest(self) -> str:
        """sha256 of what is asked; two requests with one digest ask for the same thing.

        Where a content's sha256 is known, the key under which this upload happened to be stored does not count, nor
        does the permit, which is issued anew for every try.
        """
        body = self.model_dump(mode="json", exclude={"permit"})
        for located in (body["plate"], *(p for i in body["identities"] for p in i["pictures"])):
            if located["sha256"] is not None:
                del located["object_key"]
        return hashlib.sha256(canonical(body)).hexdigest()


def canonical(body: Any) -> bytes:
    """JSON with one spelling."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
