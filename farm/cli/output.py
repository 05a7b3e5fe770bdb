"""How the commands print: data as JSON or tables to stdout, talk to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

talk = Console(stderr=True, highlight=False, soft_wrap=True)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

STATE_STYLES = {
    "completed": "green",
    "done": "green",
    "failed": "red",
    "cancelled": "dim",
    "cancelling": "dim",
    "paused": "yellow",
    "pausing": "yellow",
    "awaiting_cast": "yellow",
}


def print_json(data: Any) -> None:
    """One JSON document; models become objects."""
    click.echo(json.dumps(_plain(data), indent=2, ensure_ascii=False))


def print_json_line(data: Any) -> None:
    click.echo(json.dumps(_plain(data), ensure_ascii=False))


def print_found(found: Any, words: str, *, as_json: bool) -> None:
    """What the farm answered: all of it as JSON, or the few words that a person needs."""
    if as_json:
        print_json(found)
    else:
        click.echo(words)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
    console = Console(highlight=False)
    if not console.is_terminal:
        for row in rows:
            click.echo("\t".join(row))
        return
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Names and values, aligned."""
    pairs = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        click.echo(f"{name:<{width}}  {value}")


def bytes_in_words(size: int) -> str:
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def seconds_in_words(seconds: float | None) -> str:
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _plain(data: Any) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json")
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    return data
