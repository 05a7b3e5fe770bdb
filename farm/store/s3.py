"""A store in S3 or anything that speaks it, through boto3.

Each object carries its sha256 as metadata, checked on every whole read; each part of an upload carries a checksum that
the server checks. Transient errors are tried again by the AWS client with back-off; a download that breaks off goes on
where it stopped.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar, cast
from urllib.parse import quote

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from farm.errors import InfrastructureError, NotFoundError
from farm.store.base import ObjectInfo
from farm.store.files import damaged, disk_error, file_sha256, missing
from farm.words import counted

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

MIB = 1 << 20
T = TypeVar("T")
_META = "sha256"
_RESUMES = 4
_DELETE_AT_ONCE = 1000  # the most that S3 takes
_ABSENT = {"404", "NoSuchKey", "NotFound"}
_DENIED = {"403", "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"}
_CHANGED = {"412", "PreconditionFailed"}
_BEYOND = {"416", "InvalidRange"}


def connect(
    *,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    path_style: bool = False,
    retries: int = 6,
) -> S3Client:
    """An S3 client: `retries` tries with back-off, 10 s to connect, 60 s to read."""
    config = Config(
        signature_version="s3v4",
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=32,
        retries={"mode": "standard", "total_max_attempts": retries},
        s3={"addressing_style": "path" if path_style else "auto"},
    )
    return Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=config,
    )


class S3Store:
    """Objects in one bucket under a prefix.

    Parameters
    ----------
    client: from `connect`; one client serves many threads.
    prefix: "" or a path that ends in "/"; keys that callers see do not have it.
    part_bytes: size of a part; larger files are sent and fetched in parts, four at a time.
    encryption: server-side encryption to ask for with each put; None leaves it to the bucket.
    patience: seconds between further tries to read a whole object that is not there. Who reads one knows from the
        database that it was stored, and not every server shows an object to everybody as soon as it is stored.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        prefix: str = "",
        *,
        part_bytes: int = 16 * MIB,
        encryption: Literal["AES256", "aws:kms"] | None = None,
        patience: Sequence[float] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self.bucket = bucket
        self.prefix = prefix
        self._encryption = encryption
        self._patience = tuple(patience)
        self._sleep = sleep
        self._transfer = TransferConfig(
            multipart_threshold=part_bytes, multipart_chunksize=part_bytes, max_concurrency=4, num_download_attempts=5
        )

    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        sha256, size = file_sha256(path), path.stat().st_size
        with self._errors(key):
            self._client.upload_file(
                str(path),
                self.bucket,
                self.prefix + key,
                ExtraArgs=self._put_args(sha256, content_type),
                Config=self._transfer,
            )
        return ObjectInfo(key, size, sha256, datetime.now(UTC))

    def put_bytes(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        sha256 = hashlib.sha256(data).hexdigest()
        with self._errors(key):
            self._client.put_object(
                Bucket=self.bucket, Key=self.prefix + key, Body=data, **self._put_args(sha256, content_type)
            )
        return ObjectInfo(key, len(data), sha256, datetime.now(UTC))

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        return self._patiently(lambda: self._get_file(key, path))

    def get_bytes(self, key: str) -> bytes:
        return self._patiently(lambda: self._get_bytes(key))

    def _patiently(self, read: Callable[[], T]) -> T:
        for pause in self._patience:
            try:
                return read()
            except NotFoundError:
                self._sleep(pause)
        return read()

    def _get_file(self, key: str, path: Path) -> ObjectInfo:
        info = self.head(key)
        if info is None:
            raise missing(key)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        os.close(descriptor)
        part = Path(name)
        try:
            with self._errors(key, folder=path.parent):
                self._client.download_file(self.bucket, self.prefix + key, name, Config=self._transfer)
            if part.stat().st_size != info.size or (info.sha256 and file_sha256(part) != info.sha256):
                raise damaged(key)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return info

    def _get_bytes(self, key: str) -> bytes:
        info = self.head(key)
        if info is None:
            raise missing(key)
        with self.open(key) as stream:
            data = stream.read()
        if info.sha256 and hashlib.sha256(data).hexdigest() != info.sha256:
            raise damaged(key)
        return data

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> BinaryIO:
        if end is not None and end <= start:
            if self.head(key) is None:
                raise missing(key)
            return io.BytesIO()
        with self._errors(key):
            try:
                stream = _Stream(self._client, self.bucket, self.prefix + key, start, end)
            except ClientError as error:
                if _code(error) in _BEYOND:
                    return io.BytesIO()
                raise
        return cast(BinaryIO, io.BufferedReader(stream, 1 << 18))

    def head(self, key: str) -> ObjectInfo | None:
        try:
            with self._errors(key):
                answer = self._client.head_object(Bucket=self.bucket, Key=self.prefix + key)
        except NotFoundError:
            return None
        return ObjectInfo(key, answer["ContentLength"], answer["Metadata"].get(_META, ""), answer["LastModified"])

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self._errors(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix + prefix
            )
            for page in pages:
                for item in page.get("Contents", []):
                    key = item["Key"].removeprefix(self.prefix)
                    yield ObjectInfo(key, item["Size"], "", item["LastModified"])

    def delete(self, key: str) -> None:
        with self._errors(key):
            self._client.delete_object(Bucket=self.bucket, Key=self.prefix + key)

    def delete_prefix(self, prefix: str) -> int:
        count = 0
        infos = self.list(prefix)
        while batch := [info.key for info in islice(infos, _DELETE_AT_ONCE)]:
            count += self._delete_batch(batch)
        return count

    def signed_url(self, key: str, *, expires: timedelta, filename: str | None = None) -> str:
        if self.head(key) is None:
            raise missing(key)
        params: dict[str, Any] = {"Bucket": self.bucket, "Key": self.prefix + key}
        if filename:
            params["ResponseContentDisposition"] = f"attachment; filename*=UTF-8''{quote(filename, safe='')}"
        return self._client.generate_presigned_url("get_object", Params=params, ExpiresIn=int(expires.total_seconds()))

    def abort_stale_uploads(self, *, older_than: timedelta) -> int:
        horizon, count = datetime.now(UTC) - older_than, 0
        with self._errors(self.prefix):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket, Prefix=self.prefix
            )
            for page in pages:
                for upload in page.get("Uploads", []):
                    if upload["Initiated"] < horizon:
                        self._client.abort_multipart_upload(
                            Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                        )
                        count += 1
        return count

    def _put_args(self, sha256: str, content_type: str) -> dict[str, Any]:
        args: dict[str, Any] = {"Metadata": {_META: sha256}, "ContentType": content_type}
        if self._encryption:
            args["ServerSideEncryption"] = self._encryption
        return args

    def _delete_batch(self, keys: Sequence[str]) -> int:
        with self._errors(self.prefix):
            answer = self._client.delete_objects(
                Bucket=self.bucket, Delete={"Objects": [{"Key": self.prefix + key} for key in keys], "Quiet": True}
            )
        if failed := answer.get("Errors"):
            raise InfrastructureError(
                f"{counted(len(failed), 'object')} could not be removed: {failed[0].get('Code', 'unknown')}.",
                where=f"s3://{self.bucket}",
                do="Check the permissions of the farm's role.",
            )
        return len(keys)

    @contextmanager
    def _errors(self, key: str, *, folder: Path | None = None) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError, Boto3Error, HTTPError) as error:
            raise translate(error, key, self.bucket) from error
        except OSError as error:
            if folder is None:
                raise
            raise disk_error(error, folder, "an object is fetched") from error


class _Stream(io.RawIOBase):
    """Bytes [start, end) of an object; after a broken connection it asks for the rest of that same object."""

    def __init__(self, client: S3Client, bucket: str, key: str, start: int, end: int | None) -> None:
        self._client, self._bucket, self._key = client, bucket, key
        self._at = start
        self._etag: str | None = None
        self._failures = 0
        self._body, length = self._request(end)
        self._end = start + length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._end - self._at)
        while wanted:
            try:
                data = self._body.read(wanted)
                if not data:
                    raise ConnectionResetError("the body ended early")
            except (BotoCoreError, HTTPError, OSError) as error:
                self._resume(error)
                continue
            self._failures = 0
            self._at += len(data)
            view[: len(data)] = data
            return len(data)
        return 0

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()

    def _resume(self, error: Exception) -> None:
        self._body.close()
        self._failures += 1
        if self._failures > _RESUMES:
            raise translate(error, self._key, self._bucket) from error
        try:
            self._body, _ = self._request(self._end)
        except (ClientError, BotoCoreError, HTTPError) as again:
            raise translate(again, self._key, self._bucket) from again

    def _request(self, end: int | None) -> tuple[Any, int]:
        extra: dict[str, Any] = {}
        if self._etag:
            extra["IfMatch"] = self._etag
        if self._at or end is not None:
            extra["Range"] = f"bytes={self._at}-{'' if end is None else end - 1}"
        answer = self._client.get_object(Bucket=self._bucket, Key=self._key, **extra)
        self._etag = answer["ETag"]
        return answer["Body"], answer["ContentLength"]


def _code(error: BaseException) -> str:
    """The S3 error code in an exception or in what caused it; "" when there is none."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ClientError):
            return str(seen.response.get("Error", {}).get("Code", ""))
        seen = seen.__cause__ or seen.__context__
    return ""


def translate(error: Exception, key: str, bucket: str) -> NotFoundError | InfrastructureError:
    """The farm's word for an error of the AWS client."""
    code = _code(error)
    if code in _ABSENT:
        return missing(key)
    where = f"s3://{bucket}"
    if code == "NoSuchBucket":
        return InfrastructureError("The bucket does not exist.", where=where, do="Create it, or correct FARM_STORE.")
    if code in _DENIED:
        return InfrastructureError(
            f"The store refuses access ({code}).",
            where=where,
            do="Check the credentials and the permissions of the role.",
        )
    if code in _CHANGED:
        return InfrastructureError("The object was replaced while it was read.", where=key, do="It is fetched again.")
    return InfrastructureError(
        f"The store failed ({code or type(error).__name__}).",
        where=where,
        do="It is tried again; check the store's health.",
    )
