"""`farm models`: what models there are, under which licence, and whether their weights are here."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from typing import Any

import click
from pydantic import SecretStr

from farm.cli.output import bytes_in_words, print_json, print_table, talk
from farm.errors import InputError, PolicyError
from farm.inference.deployment import Deployment, open_deployment
from farm.inference.integrity import sha256_of
from farm.inference.licences import LicencePolicy
from farm.inference.pull import Puller
from farm.inference.spec import ModelFile, ModelSpec, Task
from farm.settings import Settings, load_settings
from farm.store.base import Store

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_precision = click.option("--precision", help="Which of the entry's files; unset: its default one.")


@click.group()
def models() -> None:
    """The catalogue of models: list, show, pull, verify, remove, accept-licence, build."""


@models.command("list")
@click.option("--task", type=click.Choice([str(task) for task in Task]), help="Only models for this task.")
@_as_json
def list_models(task: str | None, as_json: bool) -> None:
    """Every model with its task, licence class and whether it can be used here."""
    here = _Here()
    rows = [here.summary(spec) for spec in here.catalogue if task is None or spec.task == task]
    if as_json:
        print_json(rows)
    else:
        columns = ("name", "task", "licence", "weights", "usable")
        print_table(columns, [[str(row[name]) for name in columns] for row in rows])


@models.command()
@click.argument("name")
@click.option("--licence", is_flag=True, help="Print the licence text.")
@_as_json
def show(name: str, licence: bool, as_json: bool) -> None:
    """Everything that is known of model NAME."""
    here = _Here()
    spec = here.catalogue.spec(name)
    if licence:
        click.echo(here.catalogue.licence_text(name))
    elif as_json:
        print_json({**spec.model_dump(mode="json", by_alias=True), "here": here.summary(spec)})
    else:
        for line in here.describe(spec):
            click.echo(line)


@models.command()
@click.argument("names", nargs=-1, required=True)
@_precision
@click.option(
    "--from", "origins", multiple=True, help="A folder, file:// or http(s):// address that holds the files; repeatable."
)
@click.option("--offline", is_flag=True, help="Use only the places given with --from.")
@click.option("--share", is_flag=True, help="Put the files into the farm's store for its other workers.")
def pull(names: Sequence[str], precision: str | None, origins: Sequence[str], offline: bool, share: bool) -> None:
    """Bring the weights of models NAMES, and of those that they need, to this machine.

    Each file is resumed where it stopped, checked against the catalogue's sha256, and kept only if it is right.
    """
    here = _Here(with_store=share)
    if offline and not origins:
        raise InputError("Without network there is nothing to pull from.", where="--offline", do="Give --from FOLDER.")
    if share and here.store is None:
        raise InputError(
            "There is no store to share with.",
            where="--share",
            do="Set FARM_STORE, or use the home of an embedded farm that was up once (FARM_HOME).",
        )
    puller = Puller(here.deployment.library, origins=origins, upstream=not offline)
    for spec, chosen in here.wanted(names, precision):
        here.policy.check(spec)
        path = puller.pull(spec.name, chosen, _progress(spec.name))
        talk.print(f"{spec.name}: {path}")
        if share:
            there = here.deployment.library.share(spec.name, chosen)
            talk.print(f"{spec.name}: {'shared' if there else 'in the store already'}")


@models.command()
@click.argument("names", nargs=-1)
@_as_json
def verify(names: Sequence[str], as_json: bool) -> None:
    """Check the weights that are here against the catalogue; exit status 2 where one is wrong."""
    here = _Here()
    rows = [row for spec in here.chosen(names) for row in here.verified(spec)]
    if as_json:
        print_json(rows)
    else:
        print_table(("name", "precision", "state"), [[row["name"], row["precision"], row["state"]] for row in rows])
    wrong = [row["name"] for row in rows if row["state"] == "wrong"]
    if wrong:
        raise InputError(
            "Its bytes are not the catalogue's.",
            where=f"model {', '.join(wrong)}",
            do=f"Run: farm models remove {wrong[0]}; farm models pull {wrong[0]}",
        )


@models.command()
@click.argument("names", nargs=-1, required=True)
@_precision
def remove(names: Sequence[str], precision: str | None) -> None:
    """Delete pulled weights from this machine; bundled ones stay."""
    here = _Here()
    for name in names:
        spec = here.catalogue.spec(name)
        _check_precision(spec, precision)
        removed = [p for p in ([precision] if precision else spec.files) if here.deployment.library.remove(name, p)]
        talk.print(f"{name}: {'removed ' + ', '.join(removed) if removed else 'nothing was pulled'}")


@models.command("accept-licence")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--by", default=getpass.getuser, show_default="your user name", help="Who accepts.")
def accept_licence(name: str, yes: bool, by: str) -> None:
    """Accept the licence of model NAME for this deployment, by name; it is recorded with who and when."""
    here = _Here()
    spec = here.catalogue.spec(name)
    licence = spec.licence
    talk.print(here.catalogue.licence_text(name).strip(), markup=False)
    if licence.licence_class not in here.policy.allowed:
        raise PolicyError(
            f"Its licence class {licence.licence_class.value!r} is not allowed in this deployment.",
            where=f"model {name}",
            do="Let the operator add it to FARM_ALLOWED_LICENCES first.",
        )
    if not yes and not click.confirm(f"Accept {licence.id} for {name}?", err=True):
        raise PolicyError("The licence was not accepted.", where=f"model {name}", do="Choose another model.")
    here.deployment.acceptances.accept(name, licence.id, by=by)
    talk.print(f"{name}: {licence.id} accepted by {by}")


@models.command()
@click.argument("names", nargs=-1, required=True)
@_precision
@click.option("--provider", type=click.Choice(["tensorrt", "tensorrt-rtx"]), default="tensorrt", show_default=True)
@click.option("--target", default="", help="Compute capability to compile for (12.0); unset: this machine's GPU.")
@click.option("--batch", type=click.IntRange(1, 256), default=16, show_default=True, help="Most faces at once.")
@click.option("--timeout", type=click.FloatRange(1), default=1800.0, show_default=True, help="Seconds for one try.")
def build(names: Sequence[str], precision: str | None, provider: str, target: str, batch: int, timeout: float) -> None:
    """Compile engines ahead of the first job, in a process of their own, and share them through the store."""
    from farm.inference.compiled import CompiledEngines

    here = _Here(with_store=True)
    engines = CompiledEngines(
        here.deployment.engines, shelf=here.store, timeout=timeout, most=batch, target=target, beat=_state()
    )
    for spec, chosen in here.wanted(names, precision):
        here.policy.check(spec)
        weights = here.deployment.library.path(spec.name, chosen)
        folder = engines.compile(spec, chosen or spec.default_precision, provider, weights)
        talk.print(f"{spec.name}: {folder}")


class _Here:
    """The models of this deployment, as its settings say."""

    def __init__(self, *, with_store: bool = False) -> None:
        settings = load_settings()
        self.store = _store(settings) if with_store else None
        self.deployment: Deployment = open_deployment(settings.home, settings.models_dir, shelf=self.store)
        self.catalogue = self.deployment.catalogue
        self.policy = LicencePolicy.of(settings.allowed_licences, self.deployment.acceptances.by_name())

    def chosen(self, names: Sequence[str]) -> list[ModelSpec]:
        return [self.catalogue.spec(name) for name in names] if names else list(self.catalogue)

    def wanted(self, names: Sequence[str], precision: str | None) -> list[tuple[ModelSpec, str | None]]:
        """The named models and what they need, each once, needs first; the precision is for the named ones."""
        found: dict[str, tuple[ModelSpec, str | None]] = {}
        for name in names:
            _check_precision(self.catalogue.spec(name), precision)
            for spec in self.catalogue.with_needs(name):
                if not spec.builtin:
                    found[spec.name] = (spec, precision if spec.name in names else None)
        return list(found.values())

    def summary(self, spec: ModelSpec) -> dict[str, Any]:
        return {
            "name": spec.name,
            "title": spec.title,
            "task": str(spec.task),
            "licence": str(spec.licence.licence_class),
            "weights": self.weights(spec),
            "usable": self.usable(spec),
        }

    def weights(self, spec: ModelSpec) -> str:
        if spec.builtin:
            return "built in"
        here = [p for p in spec.files if self.deployment.library.present(spec.name, p) is not None]
        if here:
            return ("bundled " if spec.bundled else "here ") + ",".join(here)
        return "pull" if any(file.sha256 for file in spec.files.values()) else "no known checksum"

    def usable(self, spec: ModelSpec) -> str:
        """ "yes", or the first thing that stands in the way."""
        if spec.not_built:
            return "not built"
        for part in reversed(self.catalogue.with_needs(spec.name)):
            try:
                self.policy.check(part)
            except PolicyError:
                known = part.licence.licence_class in self.policy.allowed
                return f"{'accept the licence' if known else 'licence not allowed'}: {part.name}"
            if not part.builtin and self.deployment.library.present(part.name) is None:
                return f"pull {part.name}"
        return "yes"

    def verified(self, spec: ModelSpec) -> list[dict[str, str]]:
        rows = []
        for precision, file in spec.files.items():
            path = self.deployment.library.present(spec.name, precision)
            if path is not None:
                state = "right" if sha256_of(path) == file.sha256 else "wrong"
                rows.append({"name": spec.name, "precision": precision, "state": state, "path": str(path)})
        return rows

    def describe(self, spec: ModelSpec) -> list[str]:
        licence = spec.licence
        lines = [f"{spec.name}: {spec.title}", f"task      {spec.task}", f"usable    {self.usable(spec)}"]
        lines += [f"licence   {licence.id} ({licence.licence_class}) {licence.url}".rstrip()]
        lines += [f"          {licence.note}"] if licence.note else []
        lines += [f"needs     {', '.join(spec.needs)}"] if spec.needs else []
        for precision, file in spec.files.items():
            size = bytes_in_words(file.size) if file.size else "size unknown"
            lines.append(f"file      {precision}: {file.file}, {size}, sha256 {file.sha256 or 'not known'}")
            lines += [f"          {source}" for source in _sources(self.deployment, file)]
        for words, tensors in (("input", spec.inputs), ("output", spec.outputs)):
            for tensor in tensors:
                detail = " ".join(part for part in (tensor.layout, tensor.colour, tensor.template) if part)
                shape = "×".join(map(str, tensor.shape))
                lines.append(f"{words:<9} {tensor.name} {shape} {tensor.dtype} {tensor.kind} {detail}".rstrip())
        measured = "measured" if spec.runtime.memory_measured else "estimated"
        return [*lines, f"memory    {spec.runtime.memory_mib} MiB ({measured})"]


def _sources(deployment: Deployment, file: ModelFile) -> list[str]:
    place = deployment.library.location(file)
    return [str(place)] if place is not None and place.exists() else list(file.sources)


def _check_precision(spec: ModelSpec, precision: str | None) -> None:
    if precision is not None and precision not in spec.files:
        raise InputError(
            f"It has no {precision} file.", where=f"model {spec.name}", do=f"Choose: {', '.join(spec.files) or 'none'}."
        )


def _store(settings: Settings) -> Store | None:
    """The store that the settings name, else that of the embedded farm in the home; None where there is neither."""
    from farm.local.home import Home
    from farm.store.factory import open_store

    home = Home(settings.home)
    if settings.store is None and home.store.is_dir():
        secret = SecretStr(home.secret("url_secret").read_text())
        settings = settings.model_copy(update={"store": home.store.as_uri(), "url_secret": secret})
    return open_store(settings) if settings.store is not None else None


def _progress(name: str) -> Callable[[int, int | None], None]:
    """Says every tenth part of a file once."""
    said = [-1]

    def progress(done: int, whole: int | None) -> None:
        part = 10 * done // whole if whole else done >> 26
        if part != said[0]:
            said[0] = part
            talk.print(f"{name}: {bytes_in_words(done)}" + (f" of {bytes_in_words(whole)}" if whole else ""))

    return progress


def _state() -> Callable[[str], None]:
    """Says a state when it changes."""
    said = [""]

    def state(words: str) -> None:
        if words != said[0]:
            said[0] = words
            talk.print(words)

    return state
