"""`farm submit`: hand a job in and come back later."""

from __future__ import annotations

import click

from farm.cli.ask import DEFAULT_DELIVERABLE, Asked, asking
from farm.cli.connect import running_farm
from farm.cli.output import print_json, talk
from farm.cli.render import submit_asked


@click.command()
@asking
@click.option("--json", "as_json", is_flag=True, help="Print the job as JSON.")
def submit(asked: Asked, as_json: bool) -> None:
    """Submit PLATE and print the job's id."""
    asked.check()
    with running_farm() as client:
        job = submit_asked(client, asked, asked.deliverables or (DEFAULT_DELIVERABLE,))
        if as_json:
            print_json(job)
            return
        click.echo(job.id)
        talk.print(f"{client.url}/jobs/{job.id}\nfarm watch {job.id}", style="dim")
