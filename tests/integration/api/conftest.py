from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.serving import make_server

from farm.api.app import create_app
from farm.api.ledger import PostgresLedger
from farm.api.operations import Operations
from farm.api.services import Services
from farm.client import Client
from farm.db.engine import Sessions
from farm.db.ids import new_id
from farm.jobs.policy import DEFAULT
from farm.store.folder import FolderStore
from farm.store.signing import UrlSigner
from tests.services import moto_url
from tests.unit.api.fakes import make_services

__all__ = ["moto_url"]


@pytest.fixture
def services(tmp_path: Path, sessions: Sessions) -> Services:
    """Real database and store; probe and face check are the unit tests'."""
    signer = UrlSigner(b"a secret for this test alone")
    return replace(
        make_services(tmp_path),
        ledger=PostgresLedger(sessions, DEFAULT),
        store=FolderStore(tmp_path / "store", signer),
        signer=signer,
        new_id=new_id,
        operations=Operations(sessions, DEFAULT),
    )


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services=services)


@pytest.fixture
def url(app: Flask) -> Iterator[str]:
    """The application behind a real HTTP server."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    made = Client(url, sleep=lambda seconds: None)
    yield made
    made.close()
