"""What the OpenAPI document says beyond what the views' schemas give: problem answers, uploads, headers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from farm.api.operations import BODIES
from farm.api.problems import MEDIA_TYPE, Problem
from farm.api.schemas import CommandIn, JobIn
from farm.faces.mapping import MappingRequest

_REF = "#/components/schemas/{model}"
_PROBLEM = {"$ref": "#/components/schemas/Problem"}

_FILE = {"type": "string", "contentMediaType": "application/octet-stream"}
_SUBMIT_BODY = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["plate"],
                "properties": {
                    "plate": _FILE,
                    "identity": {"type": "array", "items": _FILE},
                    "options": {"$ref": "#/components/schemas/JobIn"},
                },
                "patternProperties": {r"^identity\.[a-z0-9][a-z0-9_-]{0,39}$": {"type": "array", "items": _FILE}},
            },
            "encoding": {"options": {"contentType": "application/json"}},
        },
        "application/json": {"schema": {"$ref": "#/components/schemas/JobIn"}},
    },
}
_COMMAND_BODY = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/CommandIn"}}}}

_MAPPING_BODY = {
    "required": True,
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/MappingRequest"}}},
}


Answers = dict[int | str, dict[str, str | dict[str, dict[str, Any]]]]


def problems(*statuses: int) -> Answers:
    """The `responses` of a view for these statuses."""
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
        for status in statuses
    }


def finish(spec: dict[str, Any] | str) -> dict[str, Any] | str:
    """Add to the generated document what the generator cannot know."""
    assert isinstance(spec, dict)  # noqa: S101  # it is a string for YAML only
    schemas = spec.setdefault("components", {}).setdefault("schemas", {})
    models: tuple[type[BaseModel], ...] = (Problem, JobIn, CommandIn, MappingRequest, *BODIES.values())
    for model in models:
        schema = model.model_json_schema(ref_template=_REF)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    paths = spec["paths"]
    for path, operations in paths.items():
        if path.startswith("/api/v1/jobs/") and "post" in operations:
            operations["post"]["requestBody"] = _MAPPING_BODY if path.endswith("/mapping") else _COMMAND_BODY
        if path in BODIES:
            reference = _REF.format(model=BODIES[path].__name__)
            operations["post"]["requestBody"] = {"content": {"application/json": {"schema": {"$ref": reference}}}}
    submit = paths["/api/v1/jobs"]["post"]
    submit["requestBody"] = _SUBMIT_BODY
    submit.setdefault("parameters", []).append(_header("Idempotency-Key", "Makes a repeated request harmless"))
    submit["responses"]["200"] = {**submit["responses"]["201"], "description": "The job that this key had made before"}
    events = paths["/api/v1/jobs/{job_id}/events"]["get"]
    events.setdefault("parameters", []).append(_header("Last-Event-ID", "The last event that the client has"))
    download = paths["/api/v1/jobs/{job_id}/deliverables/{name}"]["get"]
    download.setdefault("parameters", []).append(_header("Range", "One range of bytes"))
    spec["security"] = [{"bearer": []}, {}]
    return spec


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}
