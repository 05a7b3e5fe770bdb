"""The API's application with failing commits; for gunicorn."""

from __future__ import annotations

from apiflask import APIFlask

from farm.api import app
from tests.chaos.instrument import instrument_commits
from tests.chaos.points import points_of_process


def create_app() -> APIFlask:
    instrument_commits(points_of_process())
    return app.create_app()
