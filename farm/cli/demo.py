"""`farm demo`: the whole farm on the project's own sample plate."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli.ask import Asked
from farm.cli.connect import any_farm
from farm.cli.files import replacing
from farm.cli.output import print_json, talk
from farm.cli.progress import shown
from farm.cli.render import CancelledOnInterrupt, print_result, submit_asked, wait_for
from farm.sample import IDENTITIES, generate, portrait_picture
from farm.settings import load_settings

SECONDS = 24
DELIVERABLE = "h264"


@click.command()
@click.option("--seconds", type=click.IntRange(2, 600), default=SECONDS, show_default=True, help="Length of the plate.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; by default in FARM_HOME.")
@click.option("--json", "as_json", is_flag=True, help="Print the finished job as JSON.")
def demo(seconds: int, output: Path | None, as_json: bool) -> None:
    """Make the sample plate, put one of its two people's faces onto the other, and say what was verified."""
    folder = load_settings().home / "demo"
    plate = sample_plate(folder, seconds)
    out = output or folder / "demo.mp4"
    asked = Asked(
        plate=plate,
        identities=(str(portrait_picture(IDENTITIES[1])),),
        replace=portrait_picture(IDENTITIES[0]),
        recipe="swap",
        title="Demo",
        chunk_seconds=min(10.0, max(1.0, seconds / 3)),
    )
    with replacing(out) as target, any_farm() as client:
        job = submit_asked(client, asked, (DELIVERABLE,))
        talk.print(f"job {job.id}, live at {client.url}/jobs/{job.id}", markup=False)
        with CancelledOnInterrupt(client, job), shown(talk) as show:
            job = wait_for(client, job, show)
        client.download(job.id, DELIVERABLE, target)
    if as_json:
        print_json(job)
    else:
        click.echo(f"plate  {plate}")
        print_result(job, DELIVERABLE, out)


def sample_plate(folder: Path, seconds: int) -> Path:
    """The sample plate of this length, made when it is not there yet."""
    name = f"sample-{seconds}s"
    plate = folder / f"{name}.mp4"
    if plate.exists():
        talk.print(f"sample plate {plate}", style="dim", markup=False)
        return plate
    talk.print(f"making the sample plate, {seconds} s", style="dim")
    making = folder / "making"
    made = generate(making, seconds=seconds, name=name)
    made.truth.replace(folder / made.truth.name)
    made.plate.replace(plate)
    making.rmdir()
    return plate
