"""The store that the settings name, and stores for URIs that people give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from farm.errors import InputError
from farm.settings import Settings
from farm.store.base import Store
from farm.store.folder import FolderStore
from farm.store.signing import UrlSigner

if TYPE_CHECKING:
    from farm.store.s3 import S3Store

_PATIENCE = (0.2, 0.5, 1.0, 2.0)


def open_store(settings: Settings) -> Store:
    """The deployment's store. InputError when a setting that it needs is missing."""
    if settings.store is None:
        raise InputError(
            "No store is set.", where="FARM_STORE", do="Give file:///folder or s3://bucket/prefix, or use `farm up`."
        )
    parts = urlsplit(settings.store)
    if parts.scheme == "s3":
        prefix = parts.path.strip("/")
        return _s3(settings, parts.netloc, f"{prefix}/" if prefix else "")
    return FolderStore(Path(unquote(parts.path)), url_signer(settings))


def url_signer(settings: Settings) -> UrlSigner:
    """Signs and checks the folder store's links; the API uses it to serve them."""
    if settings.url_secret is None:
        raise InputError(
            "A folder store needs the secret that signs its links.",
            where="FARM_URL_SECRET",
            do="Set it to the same random text for every process of the farm.",
        )
    return UrlSigner(settings.url_secret.get_secret_value().encode(), settings.url or "")


def locate(uri: str, settings: Settings) -> tuple[Store, str]:
    """The store and key of an object that a person names as `s3://bucket/key`, reached with the farm's credentials."""
    parts = urlsplit(uri, allow_fragments=False)
    key = parts.path.removeprefix("/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme != "s3" or not parts.netloc or not key:
        raise InputError(
            "Only s3://bucket/key names an object.", where="uri", do="Give such a URI, or upload the file."
        )
    return _s3(settings, parts.netloc, ""), key


def _s3(settings: Settings, bucket: str, prefix: str) -> S3Store:
    try:
        from farm.store.s3 import S3Store, connect
    except ModuleNotFoundError as error:
        raise InputError(
            "The S3 client is not installed.", where="FARM_STORE", do="Install it: pip install 'facefarm[s3]'."
        ) from error
    client = connect(
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key=_reveal(settings.s3_access_key),
        secret_key=_reveal(settings.s3_secret_key),
        path_style=settings.s3_path_style,
    )
    return S3Store(client, bucket, prefix, encryption=settings.s3_server_side_encryption, patience=_PATIENCE)


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
