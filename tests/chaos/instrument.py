"""Puts the points into a process: wraps what the worker calls, and the database driver's commit."""

from __future__ import annotations

import threading
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from farm.jobs import TaskKind
from farm.jobs.wire import MergeResult, RenderResult
from farm.store import folder
from farm.store.base import ObjectInfo, Store
from farm.store.factory import open_store
from farm.store.faulty import Fault, FaultyStore
from farm.store.s3 import S3Store
from farm.worker import slot
from farm.worker.control import Control
from farm.worker.heartbeat import Heartbeat
from tests.chaos.points import Points, points_of_process

POINTS = (
    "after-claim",
    "mid-frame",
    "after-encode",
    "mid-upload",
    "after-upload",
    "after-commit",
)
"""Of a render, in their order."""
MERGE_POINTS = ("merge-after-claim", "merge-after-upload", "merge-after-commit")
STORE, COMMIT = "store-rate", "commit-rate"


def instrument_worker() -> None:
    """In the Celery child, before its slot is made."""
    points = points_of_process()
    instrument_commits(points)
    _wrap_control(points)
    progress = Heartbeat.progress

    @wraps(progress)
    def watched(self: Heartbeat, done: int, note: str) -> None:
        progress(self, done, note)
        if note == "rendering" and done == 3:
            points.reach("mid-frame")

    Heartbeat.progress = watched  # type: ignore[method-assign]
    slot.open_store = lambda settings: PointedStore(  # type: ignore[attr-defined]
        FaultyStore(open_store(settings), StoreRate(points)), points
    )
    _point_in_upload(points)


def _wrap_control(points: Points) -> None:
    claim, finish = Control.claim, Control.finish

    @wraps(claim)
    def claimed(self: Control, offer: Any) -> Any:
        found = claim(self, offer)
        if found is not None and found.kind in (TaskKind.RENDER, TaskKind.MERGE):
            points.reach("after-claim" if found.kind is TaskKind.RENDER else "merge-after-claim")
        return found

    @wraps(finish)
    def finished(self: Control, lease: Any, result: Any, then: Any = None) -> None:
        finish(self, lease, result, then)
        if isinstance(result, RenderResult):
            points.reach("after-commit")
        elif isinstance(result, MergeResult):
            points.reach("merge-after-commit")

    Control.claim = claimed  # type: ignore[method-assign]
    Control.finish = finished  # type: ignore[method-assign]


def instrument_commits(points: Points) -> None:
    """Let commits fail: the connection breaks before the server heard of it, or before the client heard the answer."""
    commit = PGDialect_psycopg.do_commit

    def do_commit(self: Any, connection: Any) -> None:
        fate = points.throw(COMMIT)
        if fate != "before":
            commit(self, connection)
        if fate:
            connection.close() if not hasattr(connection, "driver_connection") else connection.driver_connection.close()
            raise psycopg.OperationalError(f"Injected: the connection broke {fate} the commit.")

    PGDialect_psycopg.do_commit = do_commit  # type: ignore[method-assign]


class StoreRate:
    """A FaultPlan by chance."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def __call__(self, method: str, key: str) -> Fault | None:
        fate = self._points.throw(STORE)
        return Fault(fate) if fate else None


_uploading = threading.local()


class PointedStore:
    """The Store `inner`, with points around the upload of what a render or a merge made."""

    def __init__(self, inner: Store, points: Points) -> None:
        self._inner = inner
        self._points = points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        rendered, merged = "/chunks/" in key, "/merges/" in key
        if rendered:
            self._points.reach("after-encode")
        _uploading.now = rendered
        try:
            info = self._inner.put_file(key, path, content_type=content_type)
        finally:
            _uploading.now = False
        if rendered or merged:
            self._points.reach("after-upload" if rendered else "merge-after-upload")
        return info


def _point_in_upload(points: Points) -> None:
    """A folder store's upload is met after the bytes, before the name; an S3 store's when its request goes out."""
    copy = folder.copy_hashed

    def copied(source: Any, target: Any) -> tuple[int, str]:
        done = copy(source, target)
        if getattr(_uploading, "now", False):
            points.reach("mid-upload")
        return done

    folder.copy_hashed = copied  # type: ignore[attr-defined]
    make = S3Store.__init__

    @wraps(make)
    def made(self: S3Store, client: Any, *arguments: Any, **more: Any) -> None:
        make(self, client, *arguments, **more)
        client.meta.events.register("before-send.s3.PutObject", lambda **_: points.reach("mid-upload"))

    S3Store.__init__ = made  # type: ignore[method-assign]
