"""Which farm a command talks to: the one at FARM_URL, the one that is up in FARM_HOME, or one of its own."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from farm.cli.output import talk
from farm.client import Client
from farm.errors import InfrastructureError, InputError
from farm.settings import Settings, load_settings


def client_of(settings: Settings, url: str) -> Client:
    return Client(url, settings.api_token.get_secret_value() if settings.api_token else None)


def running_url(settings: Settings) -> str | None:
    """FARM_URL, or the URL of the farm that is up in FARM_HOME."""
    from farm.local.home import Home

    if settings.url:
        return settings.url
    state = Home(settings.home).running()
    return state.url if state else None


@contextmanager
def running_farm() -> Iterator[Client]:
    """The farm that runs; InputError where there is none."""
    settings = load_settings()
    url = running_url(settings)
    if url is None:
        raise InputError(
            "No farm is up.", where=str(settings.home), do="Start one with `farm up`, or set FARM_URL to its address."
        )
    client = client_of(settings, url)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def any_farm() -> Iterator[Client]:
    """The farm that runs, or one that lives as long as the block and leaves nothing behind."""
    settings = load_settings()
    url = running_url(settings)
    if url is None:
        with own_farm(settings) as client:
            yield client
        return
    client = client_of(settings, url)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def own_farm(settings: Settings) -> Iterator[Client]:
    """An embedded farm in a folder of its own inside FARM_HOME, which is removed at the end."""
    from farm.local.farm import LocalFarm

    shelf = settings.home / "own"
    _sweep(shelf)
    home = shelf / uuid.uuid4().hex[:12]
    talk.print("starting an embedded farm", style="dim")
    try:
        with LocalFarm(home, settings) as local:
            state = local.state
            if state is None:
                raise InfrastructureError("The embedded farm did not stay up.", where=str(home), do="Try again.")
            client = client_of(settings, state.url)
            try:
                yield client
            finally:
                client.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
        with suppress(OSError):
            shelf.rmdir()
            settings.home.rmdir()


def _sweep(shelf: Path) -> None:
    """Remove what commands left that were killed."""
    from farm.local.home import Home

    if not shelf.is_dir():
        return
    for home in shelf.iterdir():
        if Home(home).holder() is None:
            shutil.rmtree(home, ignore_errors=True)


def operate(method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """One operation of a running farm (`Client.operate`); its answer as plain data."""
    with running_farm() as client:
        return client.operate(method, path, body)
