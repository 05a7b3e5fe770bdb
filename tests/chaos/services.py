"""What a farm under test runs: the usual services with points put in, a second reconciler and a second API."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from farm.local.process import Service
from farm.local.services import Plan, farm_services, module_argv
from tests.chaos.points import FOLDER

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = "FARM_CHAOS_ENVIRONMENT"
"""JSON of settings that the services get in place of the embedded farm's own; `worker:NAME` is the worker's alone."""
LINKS = "FARM_CHAOS_LINKS"
"""A folder that gets links to the sockets' folders, so that relays find them."""
TWICE = ("reconciler", "api")


def chaos_services(plan: Plan) -> list[Service]:
    folder = plan.home.path / "chaos"
    folder.mkdir(exist_ok=True)
    more = {FOLDER: str(folder), "PYTHONPATH": str(ROOT), **json.loads(os.environ.get(ENVIRONMENT, "{}"))}
    for name in ("postgres", "valkey") if LINKS in more else ():
        link = Path(more[LINKS]) / name
        link.unlink(missing_ok=True)
        link.symlink_to(plan.sockets / name)
    found = []
    for service in farm_services(plan):
        if service.name not in ("worker", "reconciler", "api"):
            found.append(service)
            continue
        own = {key.removeprefix(f"{service.name}:"): value for key, value in more.items()}
        env = {**service.env, **{key: value for key, value in own.items() if ":" not in key}}
        changed = replace(service, argv=(*module_argv("tests.chaos.programs"), service.name), env=env)
        found.append(changed)
        if service.name in TWICE:
            found.append(replace(changed, name=f"{service.name}-b"))
    return found
