"""What the farm offers and how it is: recipes, deliverables, workers, health, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from apiflask import APIBlueprint
from flask import Blueprint, Response, current_app
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from farm import __version__
from farm.api.openapi import problems
from farm.api.recipes import offered
from farm.api.schemas import (
    BatchOut,
    Check,
    DeliverableKind,
    DeliverableKindList,
    FarmOut,
    Health,
    RecipeList,
    RecipeOut,
    WorkerList,
)
from farm.api.services import services
from farm.errors import FarmError
from farm.media.deliverables import deliverable, names

bp = APIBlueprint("info", __name__, url_prefix="/api/v1", tag="Farm")
health = Blueprint("health", __name__)


@bp.get("/workers")
@bp.output(WorkerList)
@bp.doc(summary="The workers and what they do", responses=problems(503))
def list_workers() -> WorkerList:
    return WorkerList(items=services().ledger.workers())


@bp.get("/farm")
@bp.output(FarmOut)
@bp.doc(summary="The farm at a glance: what runs, waits and fails, and the projects' shares", responses=problems(503))
def get_farm() -> FarmOut:
    return services().ledger.farm()


@bp.get("/batches/<name>")
@bp.output(BatchOut)
@bp.doc(summary="The jobs of a batch as one", responses=problems(404, 503))
def get_batch(name: str) -> BatchOut:
    return services().ledger.batch(name)


@bp.get("/recipes")
@bp.output(RecipeList)
@bp.doc(summary="The recipes that a job may name")
def list_recipes() -> RecipeList:
    return RecipeList(
        items=[
            RecipeOut(
                name=recipe.name,
                version=recipe.version,
                title=recipe.title,
                digest=recipe.digest(),
                processors=[processor.model_dump(mode="json") for processor in recipe.processors],
                usable=not refusal,
                why=refusal,
            )
            for recipe, refusal in offered(services())
        ]
    )


@bp.get("/deliverables")
@bp.output(DeliverableKindList)
@bp.doc(summary="The kinds of files that a job may ask for")
def list_deliverables() -> DeliverableKindList:
    return DeliverableKindList(
        items=[
            DeliverableKind(name=kind.name, version=kind.version, title=kind.title, suffix=kind.suffix)
            for kind in map(deliverable, names())
        ]
    )


@health.get("/healthz")
def healthz() -> dict[str, object]:
    """This process lives."""
    return Health(ok=True, version=__version__).model_dump(mode="json")


@health.get("/readyz")
def readyz() -> tuple[dict[str, object], int]:
    """Whether jobs can be taken: database and store answer."""
    found = services()
    checks = [
        _check("database", found.ledger.check),
        _check("store", lambda: found.store.head("readiness/probe")),
    ]
    ok = all(check.ok for check in checks)
    return Health(ok=ok, version=__version__, checks=checks).model_dump(mode="json"), 200 if ok else 503


@health.get("/metrics")
def metrics() -> Response:
    registry = cast(CollectorRegistry, current_app.extensions["farm_metrics"])
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _check(name: str, ask: Callable[[], object]) -> Check:
    try:
        ask()
    except (FarmError, OSError) as error:
        return Check(name=name, ok=False, detail=str(error) if isinstance(error, FarmError) else type(error).__name__)
    return Check(name=name, ok=True)
