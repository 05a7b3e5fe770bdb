"""`farm identity`: what pictures and clips show of a person, before a job is made with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farm.cli.files import check_input, check_output, replacing
from farm.cli.output import print_facts, print_json

if TYPE_CHECKING:
    from farm.faces.identity import PreparedIdentity


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--face", type=click.IntRange(0, 99), help="Which face of a picture with several, from the left, from 0.")
@click.option(
    "--sheet", type=click.Path(path_type=Path), metavar="OUT.png", help="Write the bank's faces as a picture."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def identity(files: tuple[Path, ...], face: int | None, sheet: Path | None, as_json: bool) -> None:
    """Say what FILES (pictures and clips of one person) show: frames kept, poses and expressions that are missing."""
    for path in files:
        check_input(path, "file")
    if sheet is not None:
        check_output(sheet, files)
    report, picture = _report(_prepared(files, face))
    if sheet is not None:
        with replacing(sheet) as out:
            out.write(picture)
    if as_json:
        print_json(report)
    else:
        print_facts([(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
                     for name, value in report.items()])  # fmt: skip


def _prepared(files: tuple[Path, ...], face: int | None) -> PreparedIdentity:
    """Prepared as a job does it, with the bundled models."""
    from farm.faces.footage import pictures_and_clips
    from farm.faces.identity import prepare_identity
    from farm.inference.catalogue import Catalogue
    from farm.inference.session import Models

    pictures, clips = pictures_and_clips((path, str(path)) for path in files)
    with Models(Catalogue.load()) as models:
        return prepare_identity(pictures, models, face=face, clips=clips)


def _report(made: PreparedIdentity) -> tuple[dict[str, object], bytes]:
    from farm.faces.coverage import coverage, missing, sheet

    report: dict[str, object] = {
        "used": list(made.used),
        "left out": list(made.outliers),
        "face": f"{made.resolution:.0f} pixels",
        "frames": len(made.bank),
        **{found.name: found.frames for found in coverage(made.bank)},
        "missing": list(missing(made.bank)),
    }
    return report, sheet(made.bank)
