"""What becomes of each face of a frame before it is painted: who it is, who is put in, and why it may be left alone.

Used alike by the pipeline in memory and by the one on a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.errors import NotFoundError
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import Mapping
from farm.faces.report import FaceReport, Outcome
from farm.faces.track import Track
from farm.faces.views import FrameView
from farm.media.facts import PlateFacts
from farm.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Face:
    """A face of a frame with what its track says of it; `refused` says why it stays as it is."""

    track: Track
    person: str | None
    similarity: float | None
    identity: str | None
    rest: NDArray[np.float64] | None
    refused: Outcome | None

    def report(self, outcome: Outcome, *, redone: bool = False) -> FaceReport:
        box = [round(float(v), 1) for v in self.track.here.box]
        return FaceReport(
            box=(box[0], box[1], box[2], box[3]),
            person=self.person,
            similarity=self.similarity,
            outcome=outcome,
            redone=redone,
        )


class Roles:
    """The mapping applied to tracks. NotFoundError where it names an identity that was not given."""

    def __init__(
        self,
        recipe: Recipe,
        cast_mapping: Mapping,
        identities: MappingOf[str, PreparedIdentity],
        facts: PlateFacts,
    ) -> None:
        missing = sorted(cast_mapping.identities - set(identities)) if recipe.puts_in_faces else []
        if missing:
            raise NotFoundError(
                f"The mapping names identities that were not given: {', '.join(missing)}.",
                where="mapping",
                do="Prepare them first.",
            )
        self._mapping = cast_mapping
        self._identities = identities
        self._facts = facts
        self._swaps = recipe.puts_in_faces

    def face(self, view: FrameView, track: Track) -> Face:
        """Whose face it is and who is to be put in."""
        person, similarity = self._mapping.who(track.embedding())
        if not self._swaps:
            return Face(track, person.id if person is not None else None, None, None, None, self._kept(view, track))
        identity = person.identity if person is not None else self._mapping.everyone
        if identity is None:
            known = person is not None or not any(p.identity for p in self._mapping.people)
            refused: Outcome | None = Outcome.NOT_MAPPED if known else Outcome.BELOW_THRESHOLD
        else:
            refused = self._kept(view, track)
        return Face(
            track=track,
            person=person.id if person is not None else None,
            similarity=round(similarity, 4) if self._mapping.people else None,
            identity=identity,
            rest=person.rest if person is not None else None,
            refused=refused,
        )

    def identity(self, face: Face) -> PreparedIdentity | None:
        """Who is put in; None for nobody."""
        return self._identities[face.identity] if face.identity is not None else None

    def _kept(self, view: FrameView, track: Track) -> Outcome | None:
        """Why the face stays where it is, by its time and its place."""
        if not self._mapping.include and not self._mapping.exclude:
            return None
        video = self._facts.video
        seconds = float((view.frame.pts - (video.start_pts or 0)) * video.time_base)
        return self._mapping.refusal(seconds, view.shown(track.here.centre, self._facts))


def by_distance(faces: Iterable[Face]) -> list[Face]:
    """Farther faces first: where two overlap, the nearer one, which is larger, lies on top."""
    return sorted(faces, key=lambda face: face.track.here.size)
