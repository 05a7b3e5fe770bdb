"""Plates and pictures that are in the store already, named by URI."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import urlsplit

from farm.api.intake import Intake, Received
from farm.api.schemas import JobIn
from farm.api.submission import Parcel
from farm.errors import InputError, PolicyError
from farm.settings import Settings
from farm.store.factory import locate


def fetch_parcel(options: JobIn, intake: Intake, settings: Settings) -> Parcel:
    """Read what the options name. Errors: InputError (also for an object that is not there), PolicyError."""
    if options.plate is None:
        raise InputError("No plate is named.", where="plate", do="Give its URI, s3://bucket/key, or upload the file.")
    pictures = {
        identity.label: [
            _fetch(uri, f"{identity.label}[{number}]", intake, settings, picture=True)
            for number, uri in enumerate(identity.pictures)
        ]
        for identity in options.identities
    }
    return Parcel(options, _fetch(options.plate, "plate", intake, settings, picture=False), pictures)


def check_bucket(uri: str, settings: Settings, where: str) -> None:
    """PolicyError unless the URI names the bucket that this farm stores in: its credentials may reach others too."""
    bucket = urlsplit(settings.store or "")
    if bucket.scheme != "s3":
        raise InputError("This farm's store is a folder.", where=where, do="Upload the file.")
    if urlsplit(uri).scheme != "s3" or urlsplit(uri).netloc != bucket.netloc:
        raise PolicyError(
            "Only objects of the farm's own bucket may be named.", where=where, do="Copy it there, or upload the file."
        )


def _fetch(uri: str, where: str, intake: Intake, settings: Settings, *, picture: bool) -> Received:
    check_bucket(uri, settings, where)
    store, key = locate(uri, settings)
    info = store.head(key)
    if info is None:
        raise InputError("There is no such object.", where=where, do="Check the URI.")
    with closing(store.open(key)) as source:
        return intake.save(source, where, picture=picture)
