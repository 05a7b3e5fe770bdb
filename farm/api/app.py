"""The application factory."""

from __future__ import annotations

import secrets
from typing import Any

from apiflask import APIFlask

from farm import __version__
from farm import log as farm_log
from farm.api import (
    attempts,
    casting,
    downloads,
    guard,
    info,
    jobs,
    metrics,
    openapi,
    operating,
    pages,
    problems,
    requests_log,
)
from farm.api.intake import FarmRequest
from farm.api.services import Services
from farm.settings import Settings, load_settings


def create_app(settings: Settings | None = None, services: Services | None = None) -> APIFlask:
    """The API and its pages.

    Parameters
    ----------
    settings: by default those of the environment.
    services: what the views work with; by default the real ones that the settings name.
    """
    if services is None:
        from farm.api.wiring import make_services

        settings = settings or load_settings()
        farm_log.configure(settings.log_level, settings.log_format)
        guard.check_exposure(settings)
        services = make_services(settings)
    app = _Farm(
        "farm.api",
        title="facefarm",
        version=__version__,
        spec_path="/api/v1/openapi.json",
        docs_path=None,
        json_errors=False,
        static_url_path="/static",
    )
    _configure(app, services.settings)
    app.extensions["farm"] = services
    app.extensions[operating.EXTENSION] = services.operations
    requests_log.register(app)
    app.extensions["farm_guard"] = watch = guard.Guard(services.settings)
    watch.register(app)
    app.extensions["farm_metrics"] = metrics.register(app)
    problems.register(app)
    for blueprint in (jobs.bp, attempts.bp, casting.bp, operating.bp, downloads.bp, info.bp):
        app.register_blueprint(blueprint)
    for plain in (downloads.objects, info.health, pages.bp):
        app.register_blueprint(plain)
    app.spec_processor(openapi.finish)
    return app


class _Farm(APIFlask):
    request_class = FarmRequest


def _configure(app: APIFlask, settings: Settings) -> None:
    secret = settings.session_secret.get_secret_value() if settings.session_secret else secrets.token_hex(32)
    config: dict[str, Any] = {
        "SECRET_KEY": secret,
        "OPENAPI_VERSION": "3.1.0",
        "AUTO_OPERATION_ID": True,
        "VALIDATION_ERROR_STATUS_CODE": 422,
        "AUTO_VALIDATION_ERROR_RESPONSE": False,
        "AUTO_404_RESPONSE": False,
        "AUTO_AUTH_ERROR_RESPONSE": False,
        "MAX_CONTENT_LENGTH": 1 << 20,
        "MAX_FORM_MEMORY_SIZE": 1 << 20,
    }
    app.config.update(config)
    app.security_schemes = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "FARM_API_TOKEN, where one is set"}
    }
    app.description = "Face replacement for long videos. Errors are problem documents (RFC 9457)."
