"""The group of all commands. Each is imported when it is used, so that `farm jobs` does not load a video library."""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import cast

import click

from farm import __version__
from farm import log as farm_log
from farm.cli.exits import Exit, exit_code, last_line

_COMMANDS = {
    "up": "farm.cli.home:up",
    "down": "farm.cli.home:down",
    "demo": "farm.cli.demo:demo",
    "render": "farm.cli.render:render",
    "submit": "farm.cli.submit:submit",
    "jobs": "farm.cli.jobs:jobs",
    "job": "farm.cli.jobs:job",
    "cast": "farm.cli.cast:cast",
    "cast-merge": "farm.cli.cast:cast_merge",
    "cast-split": "farm.cli.cast:cast_split",
    "map": "farm.cli.cast:choose",
    "report": "farm.cli.cast:report",
    "batch": "farm.cli.jobs:batch",
    "watch": "farm.cli.jobs:watch",
    "cancel": "farm.cli.jobs:cancel",
    "delete": "farm.cli.operations:delete",
    "pause": "farm.cli.operations:pause",
    "resume": "farm.cli.operations:resume",
    "requeue": "farm.cli.operations:requeue",
    "accept": "farm.cli.operations:accept",
    "priority": "farm.cli.operations:priority",
    "why": "farm.cli.operations:why",
    "download": "farm.cli.jobs:download",
    "workers": "farm.cli.workers:workers",
    "live": "farm.cli.live:live",
    "worker": "farm.cli.operations:worker",
    "logs": "farm.cli.logs:logs",
    "projects": "farm.cli.operations:projects",
    "project": "farm.cli.operations:project",
    "webhooks": "farm.cli.operations:webhooks",
    "retention": "farm.cli.retention:retention",
    "probe": "farm.cli.probe:probe",
    "identity": "farm.cli.identity:identity",
    "doctor": "farm.cli.doctor:doctor",
    "models": "farm.cli_models:models",
    "reconciler": "farm.cli.reconciler:reconciler",
    "migrate": "farm.cli.migrate:migrate",
    "permit-key": "farm.cli.permit_key:permit_key",
    "version": "farm.cli.program:version",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = _COMMANDS.get(cmd_name)
        if found is None:
            return None
        module, _, name = found.partition(":")
        return cast(click.Command, getattr(importlib.import_module(module), name))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Say more: log lines, and where a mistake happened.")
@click.pass_context
def farm(ctx: click.Context, debug: bool) -> None:
    """Replace faces in long videos, frame for frame.

    Commands talk to the farm at FARM_URL, or to the one that `farm up` started in FARM_HOME.
    """
    ctx.obj = {"debug": debug}
    farm_log.configure("debug" if debug else "warning", "console")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Print the version."""
    click.echo(f'{{"version": "{__version__}"}}' if as_json else f"facefarm {__version__}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        result = farm.main(args=arguments, prog_name="farm", standalone_mode=False)
    except BaseException as error:
        if isinstance(error, click.exceptions.Exit):
            return error.exit_code
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        return _end(error, debug="--debug" in arguments)
    return result if isinstance(result, int) else Exit.DONE


def _end(error: BaseException, *, debug: bool) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        click.echo("farm: No command was given. Choose one of those above.", err=True)
        return Exit.BAD_INPUT
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
    if debug:
        traceback.print_exception(error)
    click.echo(last_line(error), err=True)
    return exit_code(error)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a command as ctrl-C does, so that what it started is stopped and what it made is removed."""
    raise KeyboardInterrupt
