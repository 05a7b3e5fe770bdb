"""What a person corrects in a cast before the mapping is decided: one person found as two, or two found as one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from farm.errors import InputError, NotFoundError
from farm.faces.member import Appearance, Cast, CastMember, member_of


def merge_members(cast: Cast, into: str, others: Collection[str]) -> Cast:
    """The cast with the members `others` made part of `into`, which keeps its id; theirs are never given again.

    Raises NotFoundError for an id that is none, InputError where there is nothing to merge.
    """
    kept = _member(cast, into)
    gone = [_member(cast, name) for name in dict.fromkeys(others) if name != into]
    if not gone:
        raise InputError("A merge needs two people.", where=into, do="Name at least one other cast member.")
    parts = [part for member in (kept, *gone) for part in _appearances(member)]
    names = {member.id for member in gone}
    return _sorted(cast, [m for m in cast.members if m.id not in names and m is not kept] + [member_of(into, parts)])


def split_member(cast: Cast, name: str, numbers: Collection[int]) -> tuple[Cast, str]:
    """The cast with the appearances `numbers` taken out of the member `name`, and the id of the member they make.

    Raises NotFoundError for an id or number that is none of the member's, InputError where nothing would be left.
    """
    member = _member(cast, name)
    parts = _appearances(member)
    known = {part.number for part in parts}
    if unknown := sorted(set(numbers) - known):
        raise NotFoundError(
            f"The member has no appearance {unknown[0]}.",
            where=name,
            do=f"Choose of: {', '.join(str(number) for number in sorted(known))}.",
        )
    taken = [part for part in parts if part.number in numbers]
    left = [part for part in parts if part.number not in numbers]
    if not taken or not left:
        raise InputError(
            "A split needs appearances to take out and some that stay.",
            where=name,
            do=f"Choose some, not all, of: {', '.join(str(number) for number in sorted(known))}.",
        )
    named = cast.named + 1
    fresh = member_of(f"person-{named}", taken)
    members = [m for m in cast.members if m is not member] + [member_of(name, left), fresh]
    return _sorted(Cast(cast.members, cast.frames_seen, named), members), fresh.id


def _sorted(cast: Cast, members: Sequence[CastMember]) -> Cast:
    ordered = sorted(members, key=lambda member: (-member.screen_seconds, member.first_pts, member.id))
    return Cast(tuple(ordered), cast.frames_seen, cast.named)


def _member(cast: Cast, name: str) -> CastMember:
    for member in cast.members:
        if member.id == name:
            return member
    known = ", ".join(member.id for member in cast.members) or "(nobody was found)"
    raise NotFoundError(f"There is no cast member {name!r}.", where="cast", do=f"Choose of: {known}.")


def _appearances(member: CastMember) -> tuple[Appearance, ...]:
    if not member.appearances:
        raise InputError(
            "This cast was found by an older worker and cannot be changed by hand.",
            where=member.id,
            do="Requeue the whole job.",
        )
    return member.appearances
