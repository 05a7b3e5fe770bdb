"""What a farm under test runs: the usual services with points put in, a second reconciler, and S3 where it is asked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from farm.api.__main__ import gunicorn_argv
from farm.local.process import Service
from farm.local.services import Plan, farm_services, module_argv
from tests.chaos.points import FOLDER

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "chaos"


def chaos_services(plan: Plan) -> list[Service]:
    folder = plan.home.path / "chaos"
    folder.mkdir(exist_ok=True)
    more = {FOLDER: str(folder), "PYTHONPATH": str(ROOT)}
    if os.environ.get("FARM_CHAOS_STORE"):
        more["FARM_STORE"] = os.environ["FARM_CHAOS_STORE"]
    found = []
    for service in farm_services(plan):
        argv = {
            "worker": (*module_argv("tests.chaos.programs"), "worker"),
            "reconciler": (*module_argv("tests.chaos.programs"), "reconciler"),
            "api": (*gunicorn_argv(plan.listener.fileno(), 16)[:-1], "tests.chaos.api:create_app()"),
        }.get(service.name)
        if argv is None:
            found.append(service)
            continue
        changed = replace(service, argv=argv, env={**service.env, **more})
        found.append(changed)
        if service.name == "reconciler":
            found.append(replace(changed, name="reconciler-b"))
    return found
