"""What a chunk's result is made of, as one hash: equal hashes, equal frames. And taking a result that is there.

The hash holds the plate, the range and its presentation times, the recipe, the weights, who becomes whom, the encoders,
the consent under which it is rendered and whether it is labelled, and the code. It does not hold the execution
provider: chunks of one job may be rendered by several.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import structlog

import farm
from farm.errors import DamagedError, NotFoundError
from farm.faces.readiness import models_for
from farm.inference.catalogue import Catalogue
from farm.jobs.request import canonical
from farm.jobs.reuse import Reusable
from farm.jobs.wire import ChunkTask, ObjectOut, RenderResult
from farm.media.timeline import Timeline
from farm.provenance.permit import Permit
from farm.recipe import Recipe
from farm.store import keys
from farm.worker.task import TaskContext

log = structlog.get_logger(__name__)

_ROOMS = ("faces", "media", "inference", "provenance", "worker")
_CODE = (".py", ".cu", ".cuh")
_LIBRARIES = ("av", "numpy", "opencv-python-headless", "onnxruntime", "onnxruntime-gpu", "cupy-cuda13x")


@lru_cache(maxsize=1)
def code_version() -> str:
    """sha256 of the code that makes pictures, and the versions of the libraries that it calls."""
    root = Path(farm.__file__).parent
    found = hashlib.sha256(farm.__version__.encode())
    for path in sources():
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for name in _LIBRARIES:
        try:
            found.update(f"{name} {version(name)}\0".encode())
        except PackageNotFoundError:
            continue
    return found.hexdigest()


def sources() -> list[Path]:
    """The files of that code, the card's kernels among them."""
    root = Path(farm.__file__).parent
    rooms = [path for room in _ROOMS for path in (root / room).rglob("*") if path.suffix in _CODE]
    return sorted([root / "recipe.py", *rooms])


def model_hashes(recipe: Recipe, catalogue: Catalogue) -> dict[str, Any]:
    """What the catalogue says of every model that a render by the recipe may load."""
    used = models_for(recipe, catalogue)
    return {name: hashlib.sha256(spec.model_dump_json().encode()).hexdigest() for name, spec in sorted(used.items())}


def fingerprint(
    context: TaskContext,
    chunk: ChunkTask,
    timeline: Timeline,
    recipe: Recipe,
    catalogue: Catalogue,
    permit: Permit | None,
    *,
    labelled: bool,
) -> str:
    """The hash for one chunk of a claimed job. `recipe` is the one that really runs."""
    job = context.claim.job
    cast_key = context.claim.cast_key if recipe.puts_in_faces else None
    body = {
        "plate": job.plate.sha256,
        "frames": [chunk.first, chunk.last],
        "times": hashlib.sha256(timeline.pts.tobytes()).hexdigest(),
        "context": [chunk.plan["before"], chunk.plan["after"]],
        "recipe": recipe.digest(),
        "models": model_hashes(recipe, catalogue) if recipe.processors else {},
        "identities": [[i.label, i.face, [p.sha256 for p in i.pictures]] for i in job.identities],
        "cast": hashlib.sha256(context.store.get_bytes(cast_key)).hexdigest() if cast_key else None,
        "mapping": context.claim.mapping,
        "options": job.options,
        "encoders": chunk.plan["encoders"],
        "labelled": labelled,
        "consent": [permit.consent_level, permit.grant_sha256, permit.clean_master] if permit else None,
        "code": code_version(),
    }
    return hashlib.sha256(canonical(body)).hexdigest()


def taken_over(context: TaskContext, chunk: ChunkTask, found: Reusable, digest: str) -> RenderResult | None:
    """The earlier result as this attempt's own, copied under its keys; None where it is gone or not what it was."""
    outputs: dict[str, ObjectOut] = {}
    path = context.folder / "reused"
    for name in context.claim.job.deliverables:
        out = found.outputs[name]
        context.heartbeat.check()
        try:
            if context.store.get_file(out.key, path).sha256 != out.sha256:
                return None
        except (NotFoundError, DamagedError):
            return None
        key = keys.chunk_result(context.job_id, chunk.position, context.lease.attempt_id, name)
        outputs[name] = context.stored(context.store.put_file(key, path), out.facts)
        path.unlink()
    log.info("a result that is there is used again", from_job=found.job_id, from_attempt=found.attempt_id)
    return RenderResult(
        frames=chunk.last - chunk.first,
        outputs=outputs,
        report=found.report,
        environment={
            "fingerprint": digest,
            "reused": {"job": found.job_id, "chunk": found.position, "attempt": found.attempt_id},
        },
    )
