"""Look at files from outside in a process of its own, with limits on memory, processor time and waiting.

A file that makes the parser crash, hang or eat memory takes that process with it and nothing else.
"""

from __future__ import annotations

import base64
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    answer = _ask("facts", path, memory, cpu_seconds, wall_seconds)
    return PlateFacts.model_validate(answer)


def stills_safely(
    path: Path,
    count: int,
    *,
    memory: int = MEMORY_BYTES,
    cpu_seconds: int = CPU_SECONDS,
    wall_seconds: float = WALL_SECONDS,
) -> list[bytes]:
    """`farm.media.stills.stills` in a child process with limits; raises as `probe_safely`."""
    return [base64.b64decode(still) for still in _ask(f"stills:{count}", path, memory, cpu_seconds, wall_seconds)]


def _ask(what: str, path: Path, memory: int, cpu_seconds: int, wall_seconds: float) -> Any:
    command = [sys.executable, "-m", "farm.media.sandbox", str(memory), str(cpu_seconds), str(path.absolute()), what]
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
    if "found" in answer:
        return answer["found"]
    kind = getattr(errors, answer["kind"], InputError)
    raise kind(answer["what"], where=answer["where"], do=answer["do"])


def _overran(what: str) -> InputError:
    return InputError(
        f"The file cannot be trusted: the process that read it {what}.",
        where="the plate",
        do="Check the file in a player, and convert it with a tool that reads it.",
    )


def _found(what: str, path: Path) -> Any:
    if what == "facts":
        from farm.media.probe import probe

        return probe(path).model_dump(mode="json")
    from farm.media.stills import stills

    return [base64.b64encode(still).decode() for still in stills(path, int(what.removeprefix("stills:")))]


def _child(memory: str, cpu_seconds: str, path: str, what: str) -> None:
    """Runs in the child: set the limits first, then import what parses."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer: dict[str, object] = {"found": _found(what, Path(path))}
    except FarmError as error:
        answer = {"kind": type(error).__name__, "what": error.what, "where": error.where, "do": error.do}
    except MemoryError:
        answer = {"kind": "InputError", "what": "Reading it takes more memory than is allowed.", "where": "", "do": ""}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    _child(*sys.argv[1:5])
