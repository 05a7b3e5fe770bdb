"""Every store that the conformance suite runs over."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from farm.store.base import Store
from farm.store.folder import FolderStore
from farm.store.memory import MemoryStore
from farm.store.s3 import S3Store, connect
from farm.store.signing import UrlSigner
from tests.services import CREDENTIALS, ministack_url, moto_url

__all__ = ["ministack_url", "moto_url"]

PART = 5 << 20  # the least that S3 allows


def s3_store(url: str) -> S3Store:
    """A store in a new bucket."""
    client = connect(
        endpoint=url, region="us-east-1", access_key=CREDENTIALS[0], secret_key=CREDENTIALS[1], path_style=True
    )
    bucket = f"farm-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket)
    return S3Store(client, bucket, "some/prefix/", part_bytes=PART)


@pytest.fixture(params=["moto", "ministack"])
def s3(request: pytest.FixtureRequest) -> S3Store:
    return s3_store(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def folder(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store", UrlSigner(b"sixteen bytes or more", "http://farm.test"))


@pytest.fixture(params=["memory", "folder", "moto", "ministack"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "folder":
        return request.getfixturevalue("folder")
    return s3_store(request.getfixturevalue(f"{request.param}_url"))
