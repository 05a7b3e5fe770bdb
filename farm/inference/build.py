"""Build engines in a process of their own: a crash or a hang of the compiler must not take the worker with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farm.errors import InfrastructureError, RecipeError
from farm.inference.engines import Beat, EngineKey
from farm.words import counted

UNSUPPORTED = 3
"""Exit status of a builder that understood the request but cannot serve it: no sense in trying again."""

_TAIL = 1500


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What the builder process is told, as JSON in a file.

    method: "session" lets ONNX Runtime's provider build and cache on this GPU; "plan" compiles with the TensorRT (or
    TensorRT for RTX) library alone, for the compute capability `target` ("12.0"), also on a machine without a GPU;
    "calibrate" makes int8 of the model by the file `samples`, judged by `output` (see `farm.inference.quantise`).
    """

    model: str
    out: str
    provider: str
    method: str
    precision: str
    shapes: dict[str, dict[str, list[int]]]
    target: str = ""
    device: int = 0
    samples: str = ""
    output: str = ""

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__}, indent=2)


@dataclass(frozen=True, slots=True)
class BuildProcess:
    """Runs `command REQUEST.json` with its output in a log file.

    timeout: seconds for one try. tries: how often a build that crashed or hung is begun. beat_seconds: how often `beat`
    is called; what it raises ends the build.
    """

    timeout: float = 1800.0
    tries: int = 2
    beat_seconds: float = 2.0
    command: Sequence[str] = field(default_factory=lambda: (sys.executable, "-m", "farm.inference.engine_builder"))

    def build(self, request: BuildRequest, log: Path, *, beat: Beat | None = None) -> None:
        """Raises RecipeError where the builder cannot serve the model, InfrastructureError after the last try."""
        log.parent.mkdir(parents=True, exist_ok=True)
        asked = Path(request.out).parent / "request.json"
        asked.write_text(request.to_json())
        reason = ""
        for attempt in range(1, self.tries + 1):
            for left in Path(request.out).iterdir():
                left.unlink()
            with log.open("ab") as stream:
                stream.write(f"try {attempt} of {self.tries}: {request.method} for {request.provider}\n".encode())
                stream.flush()
                status = self._once(asked, stream.fileno(), beat)
            if status == 0:
                return
            if status == UNSUPPORTED:
                raise RecipeError(
                    f"{request.provider} cannot run this model: {_tail(log)}",
                    where="engine",
                    do="The next provider of the chain is used.",
                )
            reason = "it took too long" if status is None else f"it ended with {status}"
        raise InfrastructureError(
            f"Building the engine failed {counted(self.tries, 'time')} ({reason}): {_tail(log)}",
            where="engine",
            do=f"See {log}; the next provider of the chain is used meanwhile.",
        )

    def _once(self, asked: Path, out: int, beat: Beat | None) -> int | None:
        """The exit status, or None where the time was up; nothing of the process is left either way."""
        process = subprocess.Popen(
            [*self.command, str(asked)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        end = time.monotonic() + self.timeout
        try:
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    return None
                try:
                    return process.wait(timeout=min(self.beat_seconds, left))
                except subprocess.TimeoutExpired:
                    if beat is not None:
                        beat("building engine")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def request_for(
    key: EngineKey, model: Path, out: Path, *, method: str, target: str = "", device: int = 0
) -> BuildRequest:
    """The request that builds the engine of `key`."""
    shapes = {
        name: {"least": list(p.least), "usual": list(p.usual), "most": list(p.most)} for name, p in key.shapes.items()
    }
    return BuildRequest(
        model=str(model),
        out=str(out),
        provider=key.provider,
        method=method,
        precision=key.precision,
        shapes=shapes,
        target=target,
        device=device,
    )


def _tail(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _TAIL))
        lines = stream.read().decode(errors="replace").strip().splitlines()
    return " / ".join(line.strip() for line in lines[-6:])
