"""The services of a farm with two workers, each with a made-up card of its own: 8 GiB and 24 GiB."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from farm.local.process import Service
from farm.local.services import Plan, farm_services

FAKES = Path(__file__).resolve().parents[1] / "fakes"
CARDS = {"small": 8192, "big": 24576}


def two_cards(plan: Plan) -> list[Service]:
    found = []
    for service in farm_services(plan):
        if service.name != "worker":
            found.append(service)
            continue
        for name, memory in CARDS.items():
            own = {
                "PYTHONPATH": os.pathsep.join([str(FAKES), os.environ.get("PYTHONPATH", "")]),
                "FAKE_CARD_MIB": str(memory),
                "FARM_WORKER_NAME": name,
                "FARM_SLOTS": "1",
                "FARM_SCRATCH": str(plan.home.path / f"scratch-{name}"),
            }
            found.append(replace(service, name=f"worker-{name}", env={**service.env, **own}))
    return found
