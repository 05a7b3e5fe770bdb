"""`farm jobs`, `job`, `batch`, `watch`, `cancel`, `download`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import click

from farm.api.schemas import ChunkOut, JobOut
from farm.cli.connect import running_farm
from farm.cli.files import check_output, replacing
from farm.cli.output import (
    bytes_in_words,
    json_option,
    print_facts,
    print_found,
    print_json,
    print_json_line,
    print_table,
    seconds_in_words,
    talk,
)
from farm.cli.progress import follow, numbers, require_completed, shown
from farm.errors import InputError


@click.command()
@click.option("--state", help="Only jobs in this state; `open` and `final` are groups of states.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@json_option
def jobs(state: str | None, limit: int, as_json: bool) -> None:
    """List the latest jobs."""
    with running_farm() as client:
        page = client.jobs(state=state, limit=limit)
    if as_json:
        print_json(page)
        return
    print_table(
        ("id", "state", "progress", "recipe", "created", "title"),
        [(j.id, j.state, numbers(j), j.recipe, f"{j.created_at:%Y-%m-%d %H:%M}", j.title) for j in page.items],
    )


@click.command()
@click.argument("name")
@json_option
def batch(name: str, as_json: bool) -> None:
    """Say how far the jobs of a batch are, as one."""
    with running_farm() as client:
        found = client.operate("GET", f"/batches/{quote(name, safe='')}")
    if as_json:
        print_json(found)
        return
    at = found["progress"]
    print_facts(
        [
            ("batch", found["name"]),
            ("jobs", ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in found["states"].items())),
            ("frames", f"{at['frames_done']} of {at['frames_total'] or '?'}"),
            ("chunks", f"{at['chunks_done']} of {at['chunks_total'] or '?'}"),
            ("left", seconds_in_words(at["eta_seconds"])),
            ("GPU time", seconds_in_words(found["gpu_seconds"])),
            ("cost", "" if found["cost"] is None else f"{found['cost']:.2f}"),
        ]
    )


@click.command()
@click.argument("job_id")
@json_option
def job(job_id: str, as_json: bool) -> None:
    """Say everything about one job."""
    with running_farm() as client:
        found, chunks = client.job(job_id), client.chunks(job_id)
    if as_json:
        print_json({**found.model_dump(mode="json"), "chunks": chunks.model_dump(mode="json")["items"]})
        return
    _print_job(found)
    if chunks.items:
        click.echo()
        print_table(("chunk", "frames", "state", "done", "attempts", "reason"), map(_chunk_row, chunks.items))


@click.command()
@click.argument("job_id")
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON.")
def watch(job_id: str, as_json: bool) -> None:
    """Follow a job to its end; ends as the job does."""
    with running_farm() as client:
        if as_json:
            for event in client.events(job_id):
                print_json_line(event)
            found = client.job(job_id)
        else:
            with shown(talk) as show:
                found = follow(client, job_id, show)
    require_completed(found)
    if not as_json:
        _print_job(found)


@click.command()
@click.argument("job_id")
@click.option("--reason", default="", help="Kept with the job.")
@json_option
def cancel(job_id: str, reason: str, as_json: bool) -> None:
    """Stop a job for good."""
    with running_farm() as client:
        found = client.command(job_id, "cancel", reason)
    print_found(found, found.state, as_json=as_json)


@click.command()
@click.argument("job_id")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write; by default its own name.")
@click.option("--deliverable", help="Which one, where the job has several.")
@json_option
def download(job_id: str, output: Path | None, deliverable: str | None, as_json: bool) -> None:
    """Fetch a finished job's deliverable."""
    with running_farm() as client:
        found = client.job(job_id)
        files = [file for file in found.deliverables if deliverable in (None, file.name)]
        if not files:
            raise InputError(
                f"The job is {found.state} and has no such deliverable.",
                where=f"job {job_id}",
                do=f"Wait for it: farm watch {job_id}." if not found.final else "See what it has: farm job ID.",
            )
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise InputError("The job has several deliverables.", where=f"job {job_id}", do=f"Name one of: {names}.")
        file = files[0]
        out = output or Path(file.filename)
        check_output(out, ())
        with replacing(out) as target:
            client.download(job_id, file.name, target)
    if as_json:
        print_json({"file": str(out), **file.model_dump(mode="json")})
    else:
        click.echo(str(out))


def _print_job(found: JobOut) -> None:
    print_facts(
        [
            ("job", found.id),
            ("title", found.title),
            ("state", found.state.replace("_", " ")),
            ("reason", found.reason),
            ("now", found.why),
            ("recipe", found.recipe),
            ("progress", numbers(found)),
            ("GPU time", seconds_in_words(found.gpu_seconds) if found.gpu_seconds else ""),
            ("cost", "" if found.cost is None else f"{found.cost:.2f}"),
            *(("warning", warning.text) for warning in found.warnings),
        ]
    )
    for file in found.deliverables:
        click.echo()
        facts = [("deliverable", file.name), ("size", bytes_in_words(file.size)), ("sha256", file.sha256)]
        print_facts([*facts, *((name.replace("_", " "), str(value)) for name, value in file.verified.items())])


def _chunk_row(chunk: ChunkOut) -> tuple[str, ...]:
    frames = f"{chunk.first}–{chunk.last - 1}"
    return str(chunk.index), frames, chunk.state, str(chunk.frames_done), str(chunk.attempts), chunk.reason
