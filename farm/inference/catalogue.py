"""The catalogue: one TOML file per model in models/, read once, checked whole."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from farm.errors import NotFoundError, RecipeError
from farm.inference import templates
from farm.inference.spec import ModelSpec, Task
from farm.invalid import faults
from farm.resources import resource


class Catalogue:
    """Model specs by name, and the folder that each came from."""

    def __init__(self, specs: Mapping[str, ModelSpec], folders: Mapping[str, Path]) -> None:
        self._specs = dict(sorted(specs.items()))
        self._folders = dict(folders)

    @classmethod
    def load(cls, extra: Path | None = None) -> Catalogue:
        """The product's own catalogue, with the entries of the folder `extra` on top.

        So an operator adds models, or pins a checksum that the product does not know.
        """
        own = resource("models")
        return cls.read(own) if extra is None or extra == own else cls.read(own, extra)

    @classmethod
    def read(cls, *folders: Path) -> Catalogue:
        """Every *.toml of the folders; a later folder's entry replaces one of the same name.

        Raises RecipeError, naming the file and the field, where an entry is not right.
        """
        specs: dict[str, ModelSpec] = {}
        places: dict[str, Path] = {}
        for folder in folders:
            for path in sorted(folder.glob("*.toml")):
                spec = _read(path)
                specs[spec.name] = spec
                places[spec.name] = folder
        catalogue = cls(specs, places)
        catalogue._check_references()
        return catalogue

    def __iter__(self) -> Iterator[ModelSpec]:
        return iter(self._specs.values())

    def __len__(self) -> int:
        return len(self._specs)

    def spec(self, name: str) -> ModelSpec:
        """The entry called `name`; NotFoundError says how to see those there are."""
        try:
            return self._specs[name]
        except KeyError:
            raise NotFoundError(
                f"There is no model called {name!r} in the catalogue.",
                where="model",
                do="See the names with: farm models list",
            ) from None

    def of_task(self, task: Task) -> list[ModelSpec]:
        return [spec for spec in self if spec.task is task]

    def folder(self, name: str) -> Path:
        """The catalogue folder that holds the entry, its weights/ and its licences/."""
        return self._folders[self.spec(name).name]

    def with_needs(self, name: str) -> list[ModelSpec]:
        """The entry and, before it, every entry that it needs, each once."""
        found: dict[str, ModelSpec] = {}

        def visit(wanted: str) -> None:
            if wanted in found:
                return
            spec = self.spec(wanted)
            for need in spec.needs:
                visit(need)
            found[wanted] = spec

        visit(name)
        return list(found.values())

    def licence_text(self, name: str) -> str:
        """The licence text that lies in the catalogue, or the address where the terms stand."""
        licence = self.spec(name).licence
        if not licence.text:
            return f"{licence.id}: the terms stand at {licence.url}\n{licence.note}\n"
        return (self.folder(name) / "licences" / licence.text).read_text(encoding="utf-8")

    def _check_references(self) -> None:
        for spec in self:
            _check_needs(spec, self._specs)
            for tensor in (*spec.inputs, *spec.outputs):
                if tensor.template and tensor.template not in templates.NAMES:
                    raise RecipeError(
                        f"{tensor.name} names the unknown alignment template {tensor.template!r}.",
                        where=f"model {spec.name}",
                        do=f"Use one of: {', '.join(sorted(templates.NAMES))}.",
                    )


def _check_needs(spec: ModelSpec, specs: Mapping[str, ModelSpec], seen: tuple[str, ...] = ()) -> None:
    if spec.name in seen:
        raise RecipeError(
            f"Models need each other in a circle: {' → '.join((*seen, spec.name))}.",
            where=f"model {spec.name}",
            do="Take one of them out of `needs`.",
        )
    for need in spec.needs:
        if need not in specs:
            raise RecipeError(
                f"It needs {need!r}, which is not in the catalogue.",
                where=f"model {spec.name}",
                do="Add the entry or correct `needs`.",
            )
        _check_needs(specs[need], specs, (*seen, spec.name))


def _read(path: Path) -> ModelSpec:
    try:
        spec = ModelSpec.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"It is not TOML: {error}.", where=str(path), do="Correct the file.") from error
    except ValidationError as error:
        first = faults(error)[0]
        raise RecipeError(
            f"The catalogue entry is not right at {first.field or 'the top'}: {first.why}.",
            where=str(path),
            do="Correct the file; models/README.md says what each field means.",
        ) from error
    if spec.name != path.stem:
        raise RecipeError(
            f"The entry calls itself {spec.name!r}.",
            where=str(path),
            do="Name the file after the model, or correct it.",
        )
    return spec
