from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from farm.api.app import create_app
from farm.api.services import Services
from tests.unit.api.fakes import FakeLedger, make_services


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return make_services(tmp_path)


@pytest.fixture
def ledger(services: Services) -> FakeLedger:
    assert isinstance(services.ledger, FakeLedger)
    return services.ledger


@pytest.fixture
def api(services: Services) -> FlaskClient:
    return create_app(services=services).test_client()


@pytest.fixture
def api_with(tmp_path: Path) -> Callable[..., FlaskClient]:
    """An API with other settings."""
    return lambda **settings: create_app(services=make_services(tmp_path, **settings)).test_client()
