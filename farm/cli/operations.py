"""What operators do: `farm delete`, `requeue`, `accept`, `priority`, `why`, `worker`, `projects` and others."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import click

from farm.cli.ask import settings_of
from farm.cli.connect import operate
from farm.cli.output import json_option, print_facts, print_found, print_json, print_table
from farm.errors import InputError
from farm.words import counted

_reason = click.option("--reason", default="", help="Kept with the job.")


@click.command()
@click.argument("job_id")
@_reason
@json_option
def delete(job_id: str, reason: str, as_json: bool) -> None:
    """Delete a job with all that is stored of it; one that has not ended is cancelled first."""
    found = operate("DELETE", f"/jobs/{job_id}", {"reason": reason})
    print_found(found, f"{found['state']}, being deleted", as_json=as_json)


@click.command()
@click.argument("job_id")
@_reason
@json_option
def pause(job_id: str, reason: str, as_json: bool) -> None:
    """Hold a job: running chunks are handed back, what is rendered stays."""
    found = operate("POST", f"/jobs/{job_id}/pause", {"reason": reason})
    print_found(found, found["state"], as_json=as_json)


@click.command()
@click.argument("job_id")
@_reason
@json_option
def resume(job_id: str, reason: str, as_json: bool) -> None:
    """Let a paused job go on where it was."""
    found = operate("POST", f"/jobs/{job_id}/resume", {"reason": reason})
    print_found(found, found["state"], as_json=as_json)


@click.command()
@click.argument("job_id")
@click.option("--all", "everything", is_flag=True, help="All of it, from the plan on.")
@click.option("--chunk", type=click.IntRange(0), help="This chunk alone, also of a completed job.")
@click.option("--recipe", help="An ended job with this recipe; only what changes is rendered again.")
@click.option("--set", "changes", multiple=True, metavar="KIND.NAME=VALUE", help="A setting of that recipe, as JSON.")
@_reason
@json_option
def requeue(
    job_id: str,
    everything: bool,
    chunk: int | None,
    recipe: str | None,
    changes: tuple[str, ...],
    reason: str,
    as_json: bool,
) -> None:
    """Do again what failed of a job, or one chunk, or all of it; or a whole job with another recipe."""
    if everything and chunk is not None:
        raise InputError("All of a job holds each of its chunks.", where="--chunk", do="Give --all or --chunk.")
    if recipe is not None and (everything or chunk is not None):
        raise InputError("A recipe is for the whole job.", where="--recipe", do="Give it alone.")
    if changes and recipe is None:
        raise InputError("A setting is one of a recipe.", where="--set", do="Name the recipe, too: --recipe NAME.")
    body: dict[str, Any] = {"reason": reason}
    if recipe is None:
        body["what"] = "job" if everything else "failed" if chunk is None else chunk
    else:
        body |= {"recipe": recipe, "settings": settings_of(changes)}
    found = operate("POST", f"/jobs/{job_id}/requeue", body)
    print_found(found, found["state"], as_json=as_json)


@click.command()
@click.argument("job_id")
@click.argument("chunk", type=click.IntRange(0))
@click.option("--reason", required=True, help="Why the plate's own frames will do; kept with the job.")
@json_option
def accept(job_id: str, chunk: int, reason: str, as_json: bool) -> None:
    """Let a failed chunk show the plate's own frames."""
    found = operate("POST", f"/jobs/{job_id}/chunks/{chunk}/accept", {"reason": reason})
    print_found(found, found["state"], as_json=as_json)


@click.command()
@click.argument("job_id")
@click.argument("number", type=click.IntRange(0, 100))
@json_option
def priority(job_id: str, number: int, as_json: bool) -> None:
    """Change a job's priority (0 to 100, higher goes first), at once."""
    found = operate("POST", f"/jobs/{job_id}/priority", {"priority": number})
    print_found(found, str(found["priority"]), as_json=as_json)


@click.command()
@click.argument("job_id", required=False)
@click.option("--chunk", type=click.IntRange(0), help="Ask for this chunk of the job.")
@click.option("--worker", "worker_id", help="Ask for a worker instead.")
@json_option
def why(job_id: str | None, chunk: int | None, worker_id: str | None, as_json: bool) -> None:
    """Say in one sentence why a job, a chunk or a worker is where it is."""
    if (job_id is None) == (worker_id is None):
        raise InputError("It was not said what is asked for.", where="why", do="Give a job's id, or --worker ID.")
    path = f"/workers/{worker_id}" if job_id is None else f"/jobs/{job_id}"
    if job_id is not None and chunk is not None:
        path += f"/chunks/{chunk}"
    found = operate("GET", f"{path}/why")
    print_found(found, found["why"], as_json=as_json)


@click.group(invoke_without_command=True)
@click.option("--plan", is_flag=True, help="Print how many slots each card of this machine would carry.")
@click.option("--top", is_flag=True, help="Show what this machine's cards are doing, once a second, until ctrl-C.")
@click.pass_context
def worker(ctx: click.Context, plan: bool, top: bool) -> None:
    """Tell a worker to sleep, wake, restart or leave; forgive it. See what this machine's cards would carry."""
    if plan:
        _print_plan()
    elif top:
        _show_top()
    elif ctx.invoked_subcommand is None:
        raise click.UsageError("No command was given.", ctx)


_NO_CARD = "This machine has no NVIDIA card that its driver shows; its slots share the processors."


def _print_plan() -> None:
    from rich.console import Console

    from farm.worker.devices import find_cards, load_nvml
    from farm.worker.plan_table import plan_table

    cards = find_cards(load_nvml())
    if cards:
        Console().print(plan_table(cards))
    else:
        click.echo(_NO_CARD)


def _show_top() -> None:
    from rich.console import Group
    from rich.live import Live

    from farm.settings import load_settings
    from farm.worker.devices import load_nvml
    from farm.worker.scratch import REPORTS, scratch_root
    from farm.worker.slot_report import read_reports, slots_table
    from farm.worker.telemetry import read_cards, top_table

    nvml = load_nvml()
    folder = scratch_root(load_settings()) / REPORTS

    def shown() -> Group:
        cards = top_table(read_cards(nvml)) if nvml is not None else _NO_CARD
        return Group(cards, slots_table(read_reports(folder, time.time())))

    with suppress(KeyboardInterrupt), Live(shown(), auto_refresh=False) as live:
        while True:
            time.sleep(1)
            live.update(shown(), refresh=True)


def _add_state(name: str, state: str, words: str) -> None:
    @worker.command(name, help=words)
    @click.argument("worker_id")
    @click.option("--now", is_flag=True, help="Also hand back the tasks that it has.")
    @_reason
    @json_option
    def ask(worker_id: str, now: bool, reason: str, as_json: bool) -> None:
        found = operate("POST", f"/workers/{worker_id}/state", {"state": state, "now": now, "reason": reason})
        print_found(found, f"asked: {state}", as_json=as_json)


_add_state("sleep", "asleep", "Let a worker claim nothing more until it is woken.")
_add_state("wake", "awake", "Let a worker claim again.")
_add_state("restart", "restart", "Let a worker start anew once its tasks have ended.")
_add_state("leave", "offline", "Let a worker end once its tasks have ended.")


@worker.command()
@click.argument("worker_id")
@click.option("--job", "job_id", help="For this job only.")
@json_option
def forgive(worker_id: str, job_id: str | None, as_json: bool) -> None:
    """Let a worker take the tasks again for which it was blocked."""
    found = operate("POST", f"/workers/{worker_id}/forgive", {"job_id": job_id})
    print_found(found, f"{found['count']} blocks lifted", as_json=as_json)


@click.command()
@json_option
def projects(as_json: bool) -> None:
    """List the projects: weight, cap, budget, use."""
    found = operate("GET", "/projects")
    if as_json:
        print_json(found)
        return
    names = (
        *("name", "weight", "running", "max_running", "gpu_seconds", "budget_gpu_seconds", "money", "budget_money"),
        "budget_state",
    )
    print_table(names, [tuple("" if item[n] is None else str(item[n]) for n in names) for item in found["items"]])


@click.command()
@click.argument("name")
@click.option("--weight", type=float, help="Its share, beside the others'.")
@click.option("--max-running", type=int, help="Most attempts at once; -1: no cap.")
@click.option("--budget", type=float, help="GPU seconds that it may use; -1: no budget.")
@click.option("--budget-money", type=float, help="Money that it may use, by its workers' rates; -1: no such budget.")
@click.option("--on-budget", type=click.Choice(["warn", "stop", "cancel"]), help="What happens when it is used up.")
@json_option
def project(
    name: str,
    weight: float | None,
    max_running: int | None,
    budget: float | None,
    budget_money: float | None,
    on_budget: str | None,
    as_json: bool,
) -> None:
    """Change a project's share, cap or budget."""
    given = {
        "weight": weight,
        "max_running": max_running,
        "budget_gpu_seconds": budget,
        "budget_money": budget_money,
        "budget_action": on_budget,
    }
    body = {key: None if value == -1 else value for key, value in given.items() if value is not None}
    found = operate("POST", f"/projects/{name}", body)
    if as_json:
        print_json(found)
    else:
        print_facts([(key.replace("_", " "), "" if value is None else str(value)) for key, value in found.items()])


@click.group()
def webhooks() -> None:
    """Tell other systems of events."""


@webhooks.command("list")
@json_option
def list_webhooks(as_json: bool) -> None:
    """List the webhooks, without their secrets."""
    found = operate("GET", "/webhooks")
    if as_json:
        print_json(found)
    else:
        print_table(("id", "url", "kinds"), [(h["id"], h["url"], ",".join(h["kinds"])) for h in found["items"]])


@webhooks.command("add")
@click.argument("url")
@click.option("--project", "name", default="default", show_default=True)
@click.option("--kind", "kinds", multiple=True, help="Such as job.state; again for more; none: all.")
@click.option("--secret", envvar="FARM_WEBHOOK_SECRET", required=True, help="Signs the deliveries; 16 characters.")
@json_option
def add_webhook(url: str, name: str, kinds: tuple[str, ...], secret: str, as_json: bool) -> None:
    """Tell URL of a project's events from now on."""
    found = operate("POST", "/webhooks", {"url": url, "project": name, "kinds": list(kinds), "secret": secret})
    print_found(found, found["id"], as_json=as_json)


@webhooks.command("remove")
@click.argument("webhook_id")
@json_option
def remove_webhook(webhook_id: str, as_json: bool) -> None:
    """Forget a webhook."""
    print_found(operate("DELETE", f"/webhooks/{webhook_id}"), "removed", as_json=as_json)


@webhooks.command("replay")
@click.argument("webhook_id")
@click.option("--after-event", type=click.IntRange(0), default=0, show_default=True)
@json_option
def replay(webhook_id: str, after_event: int, as_json: bool) -> None:
    """Deliver the events above --after-event again."""
    found = operate("POST", f"/webhooks/{webhook_id}/replay", {"after_event": after_event})
    print_found(found, f"{counted(found['count'], 'delivery', 'deliveries')}", as_json=as_json)
