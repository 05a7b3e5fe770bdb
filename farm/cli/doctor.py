"""`farm doctor`: what works here, what does not, and how to get it."""

from __future__ import annotations

import click

from farm.cli.checks import Doctor, Finding
from farm.cli.exits import Exit, JobFailedError
from farm.cli.output import print_json
from farm.settings import load_settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> None:
    """Try everything that the farm needs once, and say what is missing. Fails only for what it cannot do without."""
    findings = list(Doctor(load_settings()).findings())
    if as_json:
        print_json(findings)
    else:
        _print(findings)
    broken = [f"{finding.group} {finding.name}" for finding in findings if finding.needed and not finding.ok]
    if broken:
        raise JobFailedError(
            f"Not working: {', '.join(broken)}.", do="The lines above say how to get it.", code=Exit.FAILED
        )


def _print(findings: list[Finding]) -> None:
    group = ""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        if finding.group != group:
            group = finding.group
            click.secho(group, bold=True)
        mark, colour = _mark(finding)
        click.echo(f"  {click.style(mark, fg=colour)} {finding.name:<{width}}  {finding.detail}")
        if not finding.ok and finding.get:
            click.echo(f"    {'':<{width}}  {finding.get}")


def _mark(finding: Finding) -> tuple[str, str]:
    if finding.ok:
        return "ok", "green"
    return ("no", "red") if finding.needed else ("--", "yellow")
