"""`farm workers`: who is there; their keys and their hours."""

from __future__ import annotations

import re
from typing import Any

import click

from farm.cli.connect import operate, running_farm
from farm.cli.output import json_option, print_found, print_json, print_table
from farm.errors import InputError
from farm.jobs.schedules import DAYS
from farm.words import counted


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def workers(ctx: click.Context, as_json: bool) -> None:
    """List the workers and what they do; give them keys and hours."""
    if ctx.invoked_subcommand is not None:
        return
    with running_farm() as client:
        found = client.workers()
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "state", "asked", "slots", "busy", "tags", "version", "seen", "reason"),
        [
            (
                *(w.id, w.state, w.requested or "", str(w.slots), str(w.busy), ",".join(w.tags)),
                *(w.version, f"{w.seen_at:%H:%M:%S}", "; ".join((w.reason, *w.blocks)).strip("; ")),
            )
            for w in found.items
        ],
    )


@workers.command()
@click.argument("name")
@click.option("--worker", "worker_id", help="The one worker that may use the key; by default any.")
@json_option
def register(name: str, worker_id: str | None, as_json: bool) -> None:
    """Make a key called NAME and print its secret, this once.

    Give it to the workers as FARM_WORKER_SECRET. From the first key on, a worker without one is refused.
    """
    found = operate("POST", "/worker-keys", {"name": name, "worker_id": worker_id})
    print_found(found, found["secret"], as_json=as_json)


@workers.command()
@click.argument("name")
@json_option
def revoke(name: str, as_json: bool) -> None:
    """End the key called NAME: its workers hand back what they have and end."""
    found = operate("DELETE", f"/worker-keys/{name}")
    print_found(found, f"revoked; {counted(found['count'], 'worker')} used it", as_json=as_json)


@workers.command("keys")
@json_option
def list_keys(as_json: bool) -> None:
    """List the keys, without their secrets."""
    found = operate("GET", "/worker-keys")
    if as_json:
        print_json(found)
        return
    names = ("name", "worker_id", "created_at", "used_at", "revoked_at")
    print_table(names, [tuple(str(item[name] or "") for name in names) for item in found["items"]])


@workers.command()
@click.option("--worker", "worker_id", help="The worker that it is for.")
@click.option("--tag", help="The pool that it is for: all workers with this tag.")
@click.option("--zone", default="UTC", show_default=True, help="Time zone, such as Europe/Berlin.")
@click.option("--awake", multiple=True, metavar="'DAYS HH:MM-HH:MM'", help="Such as 'mon-fri 20:00-08:00'; repeatable.")
@click.option("--clear", is_flag=True, help="Awake at all hours again.")
@json_option
def schedule(
    worker_id: str | None, tag: str | None, zone: str, awake: tuple[str, ...], clear: bool, as_json: bool
) -> None:
    """Say when a worker or a pool is awake; without --worker and --tag, list the schedules."""
    if worker_id is None and tag is None:
        _print_schedules(operate("GET", "/schedules"), as_json=as_json)
        return
    if worker_id is not None and tag is not None:
        raise InputError("A schedule is for one of them.", where="--tag", do="Give --worker or --tag.")
    if clear == bool(awake):
        raise InputError("It was not said when it is awake.", where="--awake", do="Give --awake, or --clear.")
    target = f"worker:{worker_id}" if worker_id is not None else f"tag:{tag}"
    if clear:
        operate("DELETE", f"/schedules/{target}")
    else:
        windows = [window_of(text) for text in awake]
        operate("POST", "/schedules", {"target": target, "zone": zone, "windows": windows})
    _print_schedules(operate("GET", "/schedules"), as_json=as_json)


def _print_schedules(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (item["target"], item["zone"], f"{','.join(w['days'])} {w['start']}-{w['end']}")
        for item in found["items"]
        for w in item["windows"]
    ]
    print_table(("for", "zone", "awake"), rows)


_AWAKE = re.compile(r"(?P<days>[a-z,-]+)\s+(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)")


def window_of(text: str) -> dict[str, Any]:
    """'mon-fri,sun 20:00-08:00' as a window; InputError where it is none."""
    found = _AWAKE.fullmatch(text.strip().lower())
    days: list[str] = []
    for part in found["days"].split(",") if found else ():
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            found = None
            break
        begin, count = DAYS.index(first), (DAYS.index(last or first) - DAYS.index(first)) % 7
        days += [DAYS[(begin + n) % 7] for n in range(count + 1)]
    if found is None:
        raise InputError(f"{text!r} is no window.", where="--awake", do="Write it like this: 'mon-fri 20:00-08:00'.")
    return {"days": list(dict.fromkeys(days)), "start": found["start"], "end": found["end"]}
