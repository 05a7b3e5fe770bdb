"""Draws docs/states.md from the transition tables: `python -m farm.jobs.diagram` writes it, a test checks it."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from farm.db.enums import AttemptState, JobState, TaskState
from farm.jobs.states import ATTEMPT_TRANSITIONS, JOB_TRANSITIONS, TASK_TRANSITIONS, Transitions

_HEAD = """# States

Made from `farm/jobs/states.py` by `python -m farm.jobs.diagram`; do not edit by hand.
Every change is one guarded database update, writes an event with its reason, and is refused if it is not listed here.
"""


def mermaid(start: str, table: Transitions) -> str:
    """The transitions as a mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {start}"]
    lines += [f"    {before} --> {after}" for before, after in table]
    leaving = {before for before, _ in table}
    lines += [f"    {state} --> [*]" for state in dict.fromkeys(after for _, after in table) if state not in leaving]
    return "\n".join([*lines, "```"])


def reasons(table: Transitions) -> str:
    """The transitions as a Markdown table, those with one cause and one source together."""
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (before, after), cause in table.items():
        grouped[str(after), cause].append(str(before))
    rows = [f"| {', '.join(sources)} | {after} | {cause} |" for (after, cause), sources in grouped.items()]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])


def document() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, start, table in (
        ("Job", JobState.QUEUED.value, JOB_TRANSITIONS),
        ("Task", TaskState.WAITING.value, TASK_TRANSITIONS),
        ("Attempt", AttemptState.RUNNING.value, ATTEMPT_TRANSITIONS),
    ):
        parts.append(f"## {title}\n\n{mermaid(start, table)}\n\n{reasons(table)}\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the page with the state diagrams.")
    parser.add_argument("path", type=Path, nargs="?", default=Path("docs/states.md"))
    parser.parse_args().path.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
