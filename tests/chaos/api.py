"""The API's application with the points put in; for gunicorn."""

from __future__ import annotations

from apiflask import APIFlask

from farm.api import app
from tests.chaos.instrument import API, instrument_database, instrument_store, instrument_wakeups, shift_clock
from tests.chaos.points import points_of_process


def create_app() -> APIFlask:
    points = points_of_process()
    shift_clock(points, API)
    instrument_database(points, API)
    instrument_wakeups(points, API)
    instrument_store(points, API)
    return app.create_app()
