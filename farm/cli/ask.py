"""What `render` and `submit` ask for: their common options, checked and turned into a job's request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce, wraps
from pathlib import Path
from typing import Any

import click

from farm.api.schemas import DEFAULT_LABEL, IdentityIn, JobIn
from farm.cli.files import check_input, sha256_of
from farm.cli.who import mapping_request, saying_who
from farm.errors import FarmError, InputError
from farm.media.deliverables import PRESETS, deliverable
from farm.media.loudness import LOUDNESS
from farm.media.whole import check_size
from farm.provenance.consent import Consent
from farm.recipe import preset, tuned

DEFAULT_DELIVERABLE = "h264"
REPLACED = "replaced"
"""Label of the reference picture that --replace gives."""

_BY_SUFFIX = {".mp4": "h264", ".m4v": "h264", ".mkv": "ffv1", ".mov": "prores"}

Command = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--identity", "identities", multiple=True, metavar="[NAME=]FILE",
        help="Picture or clip of the person put in; again for more of them, NAME= for more people.",
    ),
    click.option("--recipe", default="swap", show_default=True, help="Recipe; `passthrough` changes nothing."),
    click.option(
        "--set", "changes", multiple=True, metavar="KIND.NAME=VALUE",
        help="Another setting of the recipe's processor, as JSON: swap.boost=2, restore.blend=0.6.",
    ),
    click.option(
        "--deliverable", "deliverables", multiple=True,
        help=f"Kind of file to make; default {DEFAULT_DELIVERABLE}, or what fits OUT. One of: {', '.join(PRESETS)}.",
    ),
    click.option(
        "--max-size", metavar="25MB", callback=lambda _context, _option, given: size_of(given),
        help="How large a file may be that is made to a size (h264-fit): bytes, or kB, MB, GB.",
    ),
    click.option(
        "--loudness", type=click.Choice([*LOUDNESS]),
        help="Bring the sound to this norm; without it sound is copied as it is.",
    ),
    click.option("--chunk-seconds", type=click.FloatRange(0.5, 120), help="Length of a chunk."),
    click.option(
        "--replace", type=click.Path(path_type=Path), metavar="FACE.jpg",
        help="Replace the person of the plate who is shown here, wherever they appear; instead of --map.",
    ),
    click.option(
        "--face", type=click.IntRange(0, 99), help="Which face of a picture with several, from the left, from 0."
    ),
    click.option("--grant", type=click.Path(path_type=Path), help="The signed consent of the person shown."),
    click.option("--choose", is_flag=True, help="Wait for `farm map` when the people of the plate are known."),
    click.option("--title", default="", help="Name of the job in lists."),
    click.option("--project", default="default", show_default=True, help="Whose shares and budget it uses."),
    click.option("--owner", default="", help="Who submits it, for shares and caps by person."),
    click.option("--batch", help="Jobs of one name are watched as one: farm batch NAME."),
    click.option("--after", "needs", multiple=True, metavar="JOB", help="Start when this job has completed."),
    click.option("--tag", "tags", multiple=True, help="Only workers with this tag; repeatable."),
    click.option("--max-running", type=click.IntRange(1), help="Most of its tasks at once."),
    click.option("--max-retries", type=click.IntRange(0), help="Most failures of all its tasks together."),
    click.option("--priority", type=click.IntRange(0, 100), default=50, show_default=True, help="Higher goes first."),
    click.option(
        "--deadline", type=click.DateTime(["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M%z"]),
        help="When it must be done, as 2027-01-31T18:00 in local time, or with +01:00.",
    ),
)  # fmt: skip


def asking(command: Command) -> Command:
    """Add the common options to a command; they arrive as `asked`."""

    @wraps(command)
    def wrapper(**given: Any) -> Any:
        names = (
            "plate", "identities", "recipe", "deliverables", "chunk_seconds", "mapping", "replace", "face", "grant",
            "project", "owner", "batch", "needs", "tags", "max_running", "max_retries",
            "title", "priority", "deadline", "changes", "threshold", "include", "exclude", "choose", "max_size",
            "loudness",
        )  # fmt: skip
        asked = Asked(**{name: given.pop(name) for name in names})
        return command(asked=asked, **given)

    wrapped: Command = reduce(lambda made, option: option(made), reversed(_OPTIONS), saying_who(wrapper))
    return click.argument("plate", type=click.Path(path_type=Path))(wrapped)


@dataclass(frozen=True)
class Asked:
    """The options as they were given."""

    plate: Path
    identities: tuple[str, ...]
    recipe: str
    deliverables: tuple[str, ...] = ()
    chunk_seconds: float | None = None
    mapping: tuple[str, ...] = ()
    replace: Path | None = None
    face: int | None = None
    grant: Path | None = None
    title: str = ""
    priority: int = 50
    project: str = "default"
    owner: str = ""
    batch: str | None = None
    needs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_running: int | None = None
    max_retries: int | None = None
    deadline: datetime | None = None
    changes: tuple[str, ...] = ()
    threshold: float | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    choose: bool = False
    max_size: int | None = None
    loudness: str | None = None
    pictures: dict[str, list[Path]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, list[Path]] = {}
        for given in self.identities:
            label, path = _split_identity(given)
            found.setdefault(label, []).append(path)
        if self.replace is not None:
            found[REPLACED] = [self.replace]
        object.__setattr__(self, "pictures", found)

    @property
    def files(self) -> tuple[Path, ...]:
        pictures = [path for paths in self.pictures.values() for path in paths]
        return (self.plate, *pictures, *([self.grant] if self.grant else []))

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Settings by kind of processor; InputError names an option that is not KIND.NAME=VALUE."""
        return settings_of(self.changes)

    def check(self) -> None:
        """Everything that can be said without a farm. InputError or PolicyError names the file or option."""
        recipe = tuned(preset(self.recipe), self.settings)
        for name in self.deliverables:
            check_size(deliverable(name), self.max_size)
        check_input(self.plate, "plate")
        for paths in self.pictures.values():
            for path in paths:
                check_input(path, "picture")
        if self.grant:
            check_input(self.grant, "grant")
        if recipe.puts_in_faces and not self.pictures:
            raise InputError(
                f"The recipe {recipe.name!r} puts in a face and none was given.",
                where="--identity",
                do="Give a picture or a clip of the person: --identity FACE.jpg.",
            )
        from farm.media.probe import probe

        try:
            probe(self.plate)
        except InputError as error:
            raise type(error)(error.what, where=str(self.plate), do=error.do) from error

    def request(self, deliverables: tuple[str, ...]) -> JobIn:
        consent = Consent(level="A1", grant_sha256=sha256_of(self.grant)) if self.grant else Consent()
        identities = tuple(
            IdentityIn(label=label, face=None if label == REPLACED else self.face) for label in self.pictures
        )
        return JobIn(
            title=self.title,
            recipe=self.recipe,
            settings=self.settings,
            deliverables=deliverables,
            identities=identities,
            mapping=self._mapping(),
            choose_mapping=self.choose,
            consent=consent,
            max_bytes=self.max_size,
            loudness=self.loudness,
            chunk_seconds=self.chunk_seconds,
            priority=self.priority,
            project=self.project,
            owner=self.owner,
            batch=self.batch,
            needs=self.needs,
            tags=self.tags,
            max_running=self.max_running,
            max_retries=self.max_retries,
            deadline=self.deadline.astimezone() if self.deadline else None,
        )

    def _mapping(self) -> dict[str, Any] | None:
        first = next((label for label in self.pictures if label != REPLACED), None)
        limits: dict[str, Any] = {"threshold": self.threshold, "include": self.include, "exclude": self.exclude}
        if self.choose and (self.mapping or self.replace or self.include or self.exclude or self.threshold):
            raise InputError("It is to be chosen later who is replaced.", where="--choose", do="Say it to `farm map`.")
        if self.replace is None:
            return mapping_request(self.mapping, first=first or DEFAULT_LABEL, **limits)
        if self.mapping:
            raise InputError("It was said twice who is to be replaced.", where="--replace", do="Leave out --map.")
        if first is None:
            raise InputError("It was not said who is put in.", where="--identity", do="Add --identity FACE.jpg.")
        return mapping_request((), references={REPLACED: first}, **limits)

    def blamed(self, error: FarmError) -> FarmError:
        """The same error, naming the file as it is called here instead of the part of the upload."""
        part = error.where.removeprefix("the ").split("[")[0]
        label = part.removeprefix("identity.") if part.startswith("identity") else part
        if part == "plate":
            where = str(self.plate)
        elif label in self.pictures:
            where = ", ".join(str(path) for path in self.pictures[label])
        else:
            return error
        return type(error)(error.what, where=where, do=error.do)


def deliverable_for(out: Path, asked: tuple[str, ...]) -> str:
    """The one deliverable that OUT is; InputError where its suffix says something else."""
    suffix = out.suffix.lower()
    if len(asked) > 1:
        raise InputError(
            "One file can hold one deliverable.", where="--deliverable", do="Use `farm submit`, then `farm download`."
        )
    if not asked:
        return _BY_SUFFIX.get(suffix, DEFAULT_DELIVERABLE)
    kind = deliverable(asked[0])
    if kind.suffix and suffix != kind.suffix:
        raise InputError(
            f"The deliverable {kind.name!r} is a {kind.suffix} file.", where=str(out), do=f"Name it *{kind.suffix}."
        )
    return kind.name


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def size_of(given: str | None) -> int | None:
    """Bytes of "25MB"; InputError for anything else."""
    if given is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]b?|b?)\s*", given.lower())
    if found is None or found.group(2).rstrip("b") not in _UNITS:
        raise InputError(f"{given!r} is no size.", where="--max-size", do="Write it like this: 25MB.")
    return round(float(found.group(1)) * _UNITS[found.group(2).rstrip("b")])


def _split_identity(given: str) -> tuple[str, Path]:
    name, equals, path = given.partition("=")
    if equals and path and not Path(given).exists():
        return name, Path(path)
    return DEFAULT_LABEL, Path(given)


def settings_of(changes: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Settings by kind of processor; InputError names an option that is not KIND.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    for given in changes:
        name, equals, value = given.partition("=")
        kind, dot, field_name = name.partition(".")
        if not (equals and dot and kind and field_name):
            raise InputError(f"{given!r} is no setting.", where="--set", do="Write it like this: swap.boost=2.")
        try:
            found.setdefault(kind, {})[field_name] = json.loads(value)
        except ValueError:
            found.setdefault(kind, {})[field_name] = value
    return found
