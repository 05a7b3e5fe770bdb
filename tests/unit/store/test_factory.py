from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import InputError
from farm.settings import Settings, load_settings
from farm.store.factory import locate, open_store
from farm.store.folder import FolderStore
from farm.store.s3 import S3Store

_S3 = {"s3_endpoint": "http://127.0.0.1:1", "s3_region": "eu-west-1", "s3_access_key": "a", "s3_secret_key": "b"}


def _settings(**values: object) -> Settings:
    return load_settings(_env_file=None, **values)


def test_a_folder_with_odd_letters(tmp_path: Path) -> None:
    root = tmp_path / "a folder %41"
    store = open_store(_settings(store=root.as_uri(), url_secret="0123456789abcdef"))
    assert isinstance(store, FolderStore)
    assert store.root == root


def test_a_folder_needs_a_secret(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="FARM_URL_SECRET"):
        open_store(_settings(store=tmp_path.as_uri()))


@pytest.mark.parametrize(("uri", "prefix"), [("s3://bucket", ""), ("s3://bucket/", ""), ("s3://bucket/a/b", "a/b/")])
def test_a_bucket(uri: str, prefix: str) -> None:
    store = open_store(_settings(store=uri, **_S3))
    assert isinstance(store, S3Store)
    assert (store.bucket, store.prefix) == ("bucket", prefix)


def test_no_store() -> None:
    with pytest.raises(InputError, match="FARM_STORE"):
        open_store(_settings())


@pytest.mark.parametrize(
    ("uri", "key"),
    [("s3://b/a b/film#1.mov", "a b/film#1.mov"), ("s3://b/x?y=1", "x?y=1"), ("s3://b//double", "/double")],
)
def test_an_object_by_uri(uri: str, key: str) -> None:
    store, found = locate(uri, _settings(**_S3))
    assert isinstance(store, S3Store)
    assert (store.bucket, store.prefix, found) == ("b", "", key)


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "http://h/x", "s3://bucket", "s3:///key", "film.mov", ""])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(InputError):
        locate(uri, _settings())
