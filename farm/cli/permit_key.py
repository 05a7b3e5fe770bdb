"""`farm permit-key`: the public key by which workers know this farm's permits."""

from __future__ import annotations

import click

from farm.permits import key_path
from farm.provenance.permit import load_or_make_key, public_key
from farm.settings import load_settings


@click.command("permit-key")
def permit_key() -> None:
    """Print the public key for FARM_PERMIT_PUBLIC_KEY. The private one is made where there is none yet."""
    click.echo(public_key(load_or_make_key(key_path(load_settings()))))
