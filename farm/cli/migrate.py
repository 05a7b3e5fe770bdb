"""`farm migrate`: bring the database to this release's schema."""

from __future__ import annotations

import click

from farm.db.migrate import upgrade
from farm.settings import load_settings, required


@click.command()
def migrate() -> None:
    """Bring the database at FARM_DATABASE_URL to this release's schema. `farm up` does this by itself."""
    upgrade(required(load_settings(), "database_url"))
