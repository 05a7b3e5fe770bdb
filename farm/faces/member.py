"""The people of a plate as they are kept: members of the cast, and the appearances that each is made of."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.faces.embed import Embedding, unit

_RESTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Appearance:
    """Sightings of one person in a row: what a cast member can be split into by hand.

    Attributes
    ----------
    number: counted from 1 over the whole cast; never given twice, and kept by merges and splits.
    total: float32[128], the embeddings' sum, weighted by how much each tells. thumbnail: JPEG of the best sighting.
    worth: 0..1, of that sighting. screen_seconds, first_pts, last_pts, sightings: see `CastMember`.
    rest: float32[468, 3], the median form of the face.
    """

    number: int
    total: NDArray[np.float32]
    thumbnail: bytes
    worth: float
    screen_seconds: float
    first_pts: int
    last_pts: int
    sightings: int
    rest: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class CastMember:
    """One person of a plate.

    Attributes
    ----------
    id: "person-1" has the most screen time; the same plate gives the same ids, and a merge or split changes no other's.
    embedding: mean direction over all sightings. thumbnail: JPEG of the best one.
    screen_seconds: estimated from the samples. first_pts, last_pts: of the first and last sighting.
    sightings: number of samples. rest: float64[468, 3], the median form of the face.
    appearances: by time.
    """

    id: str
    embedding: Embedding
    thumbnail: bytes
    screen_seconds: float
    first_pts: int
    last_pts: int
    sightings: int
    rest: NDArray[np.float64]
    appearances: tuple[Appearance, ...] = ()


@dataclass(frozen=True, slots=True)
class Cast:
    """The members by falling screen time, how many frames were looked at, and how many members were ever named."""

    members: tuple[CastMember, ...]
    frames_seen: int = 0
    named: int = 0

    @property
    def lead(self) -> CastMember | None:
        return self.members[0] if self.members else None

    def to_bytes(self) -> bytes:
        """A compact, versioned form (NumPy .npz, no pickle)."""
        out = io.BytesIO()
        parts = [(number, part) for number, member in enumerate(self.members) for part in member.appearances]
        thumbnails = [part.thumbnail for _, part in parts]
        np.savez_compressed(
            out,
            allow_pickle=False,
            version=np.array(2),
            frames_seen=np.array(self.frames_seen),
            named=np.array(self.named),
            ids=np.array([member.id for member in self.members], np.str_),
            owner=np.array([number for number, _ in parts], np.int64),
            number=np.array([part.number for _, part in parts], np.int64),
            total=np.array([part.total for _, part in parts], np.float32),
            worth=np.array([part.worth for _, part in parts], np.float64),
            seconds=np.array([part.screen_seconds for _, part in parts], np.float64),
            pts=np.array([(part.first_pts, part.last_pts) for _, part in parts], np.int64).reshape(-1, 2),
            sightings=np.array([part.sightings for _, part in parts], np.int64),
            rest=np.array([part.rest for _, part in parts], np.float32),
            thumbnails=np.frombuffer(b"".join(thumbnails), np.uint8),
            thumbnail_ends=np.cumsum([len(thumbnail) for thumbnail in thumbnails], dtype=np.int64),
        )
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Cast:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            z = dict(stored)
        if int(z["version"]) == 1:
            return cls(_members_of_version_1(z), int(z["frames_seen"]), len(z["ids"]))
        bounds = [0, *(int(end) for end in z["thumbnail_ends"])]
        pictures = z["thumbnails"].tobytes()
        owned: list[list[Appearance]] = [[] for _ in z["ids"]]
        for at, owner in enumerate(z["owner"]):
            owned[int(owner)].append(
                Appearance(
                    number=int(z["number"][at]),
                    total=z["total"][at],
                    thumbnail=pictures[bounds[at] : bounds[at + 1]],
                    worth=float(z["worth"][at]),
                    screen_seconds=float(z["seconds"][at]),
                    first_pts=int(z["pts"][at, 0]),
                    last_pts=int(z["pts"][at, 1]),
                    sightings=int(z["sightings"][at]),
                    rest=z["rest"][at],
                )
            )
        members = tuple(member_of(str(name), parts) for name, parts in zip(z["ids"], owned, strict=True))
        return cls(members, int(z["frames_seen"]), int(z["named"]))


def member_of(name: str, appearances: Iterable[Appearance]) -> CastMember:
    """The person that one or more appearances make up."""
    parts = tuple(sorted(appearances, key=lambda part: (part.first_pts, part.number)))
    best = max(parts, key=lambda part: part.worth)
    return CastMember(
        id=name,
        embedding=unit(np.sum([part.total for part in parts], axis=0)),
        thumbnail=best.thumbnail,
        screen_seconds=sum(part.screen_seconds for part in parts),
        first_pts=min(part.first_pts for part in parts),
        last_pts=max(part.last_pts for part in parts),
        sightings=sum(part.sightings for part in parts),
        rest=_median_form(parts),
        appearances=parts,
    )


def _median_form(parts: Sequence[Appearance]) -> NDArray[np.float64]:
    """The median of the appearances' forms, each counted as often as it was seen."""
    seen = np.array([part.sightings for part in parts], np.float64)
    times = np.maximum(1, np.round(seen * min(1.0, _RESTS / seen.sum()))).astype(int)
    return np.asarray(np.median(np.repeat([part.rest for part in parts], times, axis=0), axis=0), np.float64)


def _members_of_version_1(z: dict[str, NDArray[np.generic]]) -> tuple[CastMember, ...]:
    """Members that an older worker found: they have no appearances."""
    return tuple(
        CastMember(
            id=str(name),
            embedding=np.asarray(z[f"embedding_{number}"], np.float32),
            thumbnail=z[f"thumbnail_{number}"].tobytes(),
            screen_seconds=float(z["seconds"][number]),
            first_pts=int(z["pts"][number, 0]),
            last_pts=int(z["pts"][number, 1]),
            sightings=int(z["sightings"][number]),
            rest=np.asarray(z[f"rest_{number}"], np.float64),
        )
        for number, name in enumerate(z["ids"])
    )
