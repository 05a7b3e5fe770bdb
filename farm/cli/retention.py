"""`farm retention`: what the store would forget, or forget it now."""

from __future__ import annotations

from dataclasses import asdict

import click

from farm.cli.output import bytes_in_words, json_option, print_json, print_table
from farm.errors import InputError
from farm.settings import load_settings


@click.command()
@click.option("--apply", "apply_now", is_flag=True, help="Remove it now instead of only saying what is due.")
@json_option
def retention(apply_now: bool, as_json: bool) -> None:
    """Say which objects of ended jobs are due to be removed (a dry run), or remove them.

    Needs FARM_DATABASE_URL and FARM_STORE, as the farm's own programs do; the reconciler does the same every hour.
    """
    from farm.db.engine import make_engine, make_sessions
    from farm.retention import Retention, ages
    from farm.store.factory import open_store

    settings = load_settings()
    if settings.database_url is None:
        raise InputError("No database is set.", where="FARM_DATABASE_URL", do="Set it to the farm's database.")
    engine = make_engine(settings.database_url, application="farm-retention", pool_size=1)
    try:
        keeper = Retention(make_sessions(engine), open_store(settings), ages(settings))
        found = keeper.due()
        if apply_now:
            keeper.run_once()
    finally:
        engine.dispose()
    if as_json:
        print_json({"applied": apply_now, "items": [asdict(item) for item in found]})
        return
    rows = [(item.job_id, item.part, str(item.objects), bytes_in_words(item.size)) for item in found]
    print_table(("job", "part", "objects", "size"), rows)
