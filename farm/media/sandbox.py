"""Probe files from outside in a process of its own, with limits on memory, processor time and waiting.

A file that makes the parser crash, hang or eat memory takes that process with it and nothing else.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

from farm import errors
from farm.errors import FarmError, InputError
from farm.media.facts import PlateFacts

MEMORY_BYTES = 4 * 1024**3
CPU_SECONDS = 60
WALL_SECONDS = 120.0


def probe_safely(
    path: Path, *, memory: int = MEMORY_BYTES, cpu_seconds: int = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> PlateFacts:
    """`farm.media.probe.probe` in a child process with limits.

    Raises what the probe raises, and InputError when the child was killed or overran a limit.
    """
    command = [sys.executable, "-m", "farm.media.sandbox", str(memory), str(cpu_seconds), str(path.absolute())]
    try:
        done = subprocess.run(command, capture_output=True, timeout=wall_seconds, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        raise _overran(f"did not end within {wall_seconds:.0f} seconds") from None
    if done.returncode < 0:
        raise _overran(f"was ended by signal {-done.returncode}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise _overran(f"ended with code {done.returncode} and no answer") from None
    if "facts" in answer:
        return PlateFacts.model_validate(answer["facts"])
    kind = getattr(errors, answer["kind"], InputError)
    raise kind(answer["what"], where=answer["where"], do=answer["do"])


def _overran(what: str) -> InputError:
    return InputError(
        f"The file cannot be trusted: the process that read it {what}.",
        where="the plate",
        do="Check the file in a player, and convert it with a tool that reads it.",
    )


def _child(memory: str, cpu_seconds: str, path: str) -> None:
    """Runs in the child: set the limits first, then import what parses."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from farm.media.probe import probe

    try:
        answer: dict[str, object] = {"facts": probe(Path(path)).model_dump(mode="json")}
    except FarmError as error:
        answer = {"kind": type(error).__name__, "what": error.what, "where": error.where, "do": error.do}
    except MemoryError:
        answer = {"kind": "InputError", "what": "Reading it takes more memory than is allowed.", "where": "", "do": ""}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    _child(*sys.argv[1:4])
