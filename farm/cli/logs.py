"""`farm logs`: what an attempt wrote, while it runs or afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from farm.cli.connect import running_farm
from farm.cli.output import json_option, print_json, print_table
from farm.client import Client
from farm.errors import NotFoundError

POLL_SECONDS = 1.0


@click.command()
@click.argument("job_id")
@click.option("--chunk", type=click.IntRange(0), help="The attempts at this chunk.")
@click.option("--kind", type=click.Choice(["plan", "cast", "render", "merge"]), help="The attempts of this kind.")
@click.option("--attempt", "attempt_id", help="This attempt; by default the latest that failed, else the latest.")
@click.option("--list", "only_list", is_flag=True, help="List the attempts instead.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt has ended.")
@json_option
def logs(
    job_id: str,
    chunk: int | None,
    kind: str | None,
    attempt_id: str | None,
    only_list: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Print the log of an attempt at a job's task."""
    with running_farm() as client:
        wanted = "render" if chunk is not None else kind
        attempts = [
            item
            for item in client.operate("GET", f"/jobs/{job_id}/attempts")["items"]
            if wanted in (None, item["kind"]) and chunk in (None, item["position"]) and attempt_id in (None, item["id"])
        ]
        if only_list:
            _print_attempts(attempts, as_json=as_json)
            return
        attempt = choose(attempts, job_id)
        parts = read_parts(client, job_id, attempt["id"], follow=follow)
        if as_json:
            print_json({**attempt, "log": "".join(parts)})
            return
        for part in parts:
            click.echo(part, nl=False)


def choose(attempts: list[dict[str, Any]], job_id: str) -> dict[str, Any]:
    """Of attempts, newest first: the latest that runs or failed, else the latest. NotFoundError without any."""
    if not attempts:
        raise NotFoundError("It has no such attempt.", where=f"job {job_id}", do="See `farm logs JOB --list`.")
    telling = ("running", "failed", "expired")
    return next((item for item in attempts if item["state"] in telling), attempts[0])


def read_parts(
    client: Client, job_id: str, attempt_id: str, *, follow: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """The log's text as it comes: what there is, or with `follow` all of it until the attempt has ended."""
    offset, quiet = 0, False
    while True:
        part = client.operate("GET", f"/jobs/{job_id}/attempts/{attempt_id}/log?offset={offset}")
        if part["text"]:
            yield part["text"]
        if not part["text"] and (quiet or not follow):
            return
        quiet = part["ended"] and not part["text"]  # the last lines are stored a moment after the attempt's end
        offset = part["next"]
        if not part["text"]:
            sleep(POLL_SECONDS)


def _print_attempts(attempts: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"items": attempts})
        return
    columns = ("id", "kind", "position", "number", "worker", "state", "frames_done", "error_class", "cause")
    print_table(columns, [tuple("" if item[c] is None else str(item[c]) for c in columns) for item in attempts])
