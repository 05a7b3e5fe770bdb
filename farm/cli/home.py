"""`farm up` and `farm down`."""

from __future__ import annotations

import click

from farm.api.guard import check_exposure
from farm.cli.output import json_option, print_json, talk
from farm.local.farm import LocalFarm
from farm.local.home import FarmState
from farm.settings import load_settings


@click.command()
@click.option("--detach", is_flag=True, help="Come back when it is ready, and leave it running.")
@click.option("--json", "as_json", is_flag=True, help="Print where it is as JSON.")
def up(detach: bool, as_json: bool) -> None:
    """Start the embedded farm in FARM_HOME and keep it running."""
    settings = load_settings()
    check_exposure(settings)
    local = LocalFarm(settings=settings)

    def say(state: FarmState) -> None:
        if as_json:
            print_json({"url": state.url, "pid": state.pid, "home": str(local.home.path)})
        else:
            click.echo(state.url)
            talk.print(f"home {local.home.path}", style="dim")

    if detach:
        say(local.up())
        talk.print("stop it with: farm down", style="dim")
        return
    local.run(say)


@click.command()
@json_option
def down(as_json: bool) -> None:
    """Stop the embedded farm in FARM_HOME. What it holds stays."""
    stopped = LocalFarm(settings=load_settings()).down()
    if as_json:
        print_json({"stopped": stopped})
    else:
        click.echo("stopped" if stopped else "no farm was up")
