"""The worker's Celery application with the points put in; `celery --app tests.chaos.app`."""

from farm.worker.app import app
from tests.chaos.instrument import instrument_worker

__all__ = ["app"]

instrument_worker()
