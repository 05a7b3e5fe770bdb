"""`farm render`: one file through a farm, waited for."""

from __future__ import annotations

from pathlib import Path

import click

from farm.api.schemas import JobOut
from farm.cli.ask import Asked, asking, deliverable_for
from farm.cli.connect import any_farm
from farm.cli.files import check_output, replacing
from farm.cli.output import bytes_in_words, print_facts, print_json, talk
from farm.cli.progress import Show, follow, require_completed, shown
from farm.client import Client
from farm.errors import FarmError, InputError


@click.command()
@asking
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the finished job as JSON.")
def render(asked: Asked, output: Path, as_json: bool) -> None:
    """Render PLATE and write the result to OUTPUT.

    Uses the farm at FARM_URL or the one that is up; where there is none, one is started and stopped again.
    """
    name = deliverable_for(output, asked.deliverables)
    check_output(output, asked.files)
    asked.check()
    if asked.choose:
        raise InputError("`farm render` cannot wait for a choice.", where="--choose", do="Use `farm submit --choose`.")
    with replacing(output) as target, any_farm() as client:
        job = submit_asked(client, asked, (name,))
        with CancelledOnInterrupt(client, job), shown(talk) as show:
            job = wait_for(client, job, show)
        client.download(job.id, name, target)
    if as_json:
        print_json(job)
    else:
        print_result(job, name, output)


def submit_asked(client: Client, asked: Asked, deliverables: tuple[str, ...]) -> JobOut:
    """Send what was asked for; errors name the files as they are called here."""
    try:
        return client.submit(asked.request(deliverables), plate=asked.plate, pictures=asked.pictures)
    except FarmError as error:
        raise asked.blamed(error) from error


def wait_for(client: Client, job: JobOut, show: Show) -> JobOut:
    return require_completed(follow(client, job.id, show))


class CancelledOnInterrupt:
    """Cancel the job when the person, or a SIGTERM, breaks the wait."""

    def __init__(self, client: Client, job: JobOut) -> None:
        self._client = client
        self._job = job

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            talk.print("cancelling the job", style="dim")
            self._client.command(self._job.id, "cancel", "The person who waited for it gave up.")


def print_result(job: JobOut, name: str, output: Path) -> None:
    """Where the file is and what was found by reading it back."""
    found = next(item for item in job.deliverables if item.name == name)
    verified = [(key.replace("_", " "), str(value)) for key, value in found.verified.items() if value not in (None, [])]
    print_facts(
        [
            ("file", str(output)),
            ("size", bytes_in_words(found.size)),
            ("sha256", found.sha256),
            *verified,
        ]
    )
