"""Puts the points into a process: wraps what the worker calls, the wake-ups, and the database driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
import time_machine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from farm.db import engine
from farm.errors import InfrastructureError
from farm.jobs import TaskKind
from farm.jobs.reconcile.outbox import Message
from farm.jobs.wire import MergeResult, RenderResult
from farm.store import folder
from farm.store.base import ObjectInfo
from farm.store.s3 import S3Store
from farm.wakeups import Wakeups
from farm.worker.control import Control
from farm.worker.heartbeat import Heartbeat
from tests.chaos.points import BEFORE, Points, points_of_process

POINTS = (
    "after-claim",
    "mid-frame",
    "after-encode",
    "mid-upload",
    "after-upload",
    "after-commit",
)
"""Of a render, in their order."""
MERGE_POINTS = ("merge-after-claim", "merge-after-encode", "merge-after-upload", "merge-after-commit")
SLOT, API, RECONCILER, FLEET = "slot", "api", "reconciler", "fleet"
WORKER = "worker"
ROLES = (SLOT, API, RECONCILER, FLEET)
"""Processes: the Celery child, the API, the reconciler, and the program that watches the Celery workers."""
STORE, COMMIT, STATEMENT, WAKE = "store-rate", "commit-rate", "statement-rate", "wake-rate"
LOST, DOUBLED, DELAYED = "lost", "doubled", "delayed"
LATE_SECONDS = 4.0
"""How late a delayed message is: later than a lease."""
STORE_CALLS = ("put_file", "put_bytes", "get_file", "get_bytes", "open", "head", "list", "delete_prefix")


def shift_clock(points: Points, role: str) -> None:
    """Make the wall clock of this process wrong, if that is wanted of its role; the monotonic clock stays right."""
    if shift := points.clock(role):
        time_machine.travel(datetime.now(UTC) + timedelta(seconds=float(shift)), tick=True).start()


def instrument_worker() -> None:
    """In the Celery child, before its slot is made."""
    points = points_of_process()
    shift_clock(points, WORKER)
    instrument_database(points, SLOT)
    _wrap_control(points)
    progress = Heartbeat.progress

    @wraps(progress)
    def watched(self: Heartbeat, done: int, note: str) -> None:
        progress(self, done, note)
        if note == "rendering" and done == 3:
            points.reach("mid-frame")

    Heartbeat.progress = watched  # type: ignore[method-assign]
    instrument_store(points, SLOT)


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


def instrument_database(points: Points, role: str) -> None:
    """Let commits and statements fail: the connection breaks before the server heard of it, or before the answer came.

    Around each commit are the points `<role>-before-commit` and `<role>-after-commit`.
    """
    commit, execute = PGDialect_psycopg.do_commit, PGDialect_psycopg.do_execute

    def do_commit(self: Any, connection: Any) -> None:
        fate = points.throw(COMMIT, role)
        points.reach(f"{role}-before-commit")
        if fate != BEFORE:
            commit(self, connection)
        points.reach(f"{role}-after-commit")
        if fate:
            _break(connection, f"{fate} the commit")

    def do_execute(self: Any, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        fate = points.throw(STATEMENT, role)
        if fate == BEFORE:
            _break(cursor.connection, "before a statement")
        execute(self, cursor, statement, parameters, context)
        if fate:
            _break(cursor.connection, "after a statement")

    ask_once = engine.ask_once

    def asked(*arguments: Any) -> Any:
        """A statement that is a transaction of its own: what breaks it breaks both."""
        fate = points.throw(COMMIT, role) or points.throw(STATEMENT, role)
        points.reach(f"{role}-before-commit")
        if fate == BEFORE:
            raise psycopg.OperationalError("Injected: the connection broke before a statement.")
        row = ask_once(*arguments)
        points.reach(f"{role}-after-commit")
        if fate:
            raise psycopg.OperationalError("Injected: the connection broke after a statement.")
        return row

    engine.ask_once = asked
    PGDialect_psycopg.do_commit = do_commit  # type: ignore[method-assign]
    PGDialect_psycopg.do_execute = do_execute  # type: ignore[method-assign]


def _break(connection: Any, when: str) -> None:
    getattr(connection, "driver_connection", connection).close()
    raise psycopg.OperationalError(f"Injected: the connection broke {when}.")


def instrument_wakeups(points: Points, role: str) -> None:
    """Let wake-ups get lost, come twice, or come late; `calls` of the rate says which. After each there is a point."""
    send = Wakeups.__call__

    @wraps(send)
    def sent(self: Wakeups, message: Message) -> None:
        if points.throw(WAKE, LOST):
            return
        if points.throw(WAKE, DELAYED):
            late = threading.Timer(LATE_SECONDS, send, (self, message))
            late.daemon = True
            late.start()
            return
        send(self, message)
        if points.throw(WAKE, DOUBLED):
            send(self, message)
        points.reach(f"{role}-after-send")

    Wakeups.__call__ = sent  # type: ignore[method-assign]


_uploading = threading.local()


def instrument_store(points: Points, role: str) -> None:
    """Let calls of either store fail, not done or done all the same, and put points around its uploads."""
    for store in (folder.FolderStore, S3Store):
        for name in STORE_CALLS:
            setattr(store, name, _failing(getattr(store, name), name, points))
        store.put_file = _with_points(store.put_file, points, role)  # type: ignore[method-assign]
    _point_in_upload(points)


def _failing(call: Callable[..., Any], name: str, points: Points) -> Callable[..., Any]:
    @wraps(call)
    def called(*arguments: Any, **more: Any) -> Any:
        fate = points.throw(STORE, name)
        if fate == BEFORE:
            raise InfrastructureError("Injected fault: not done.", where="store", do="Try again.")
        answer = call(*arguments, **more)
        if fate:
            raise InfrastructureError("Injected fault: done all the same.", where="store", do="Try again.")
        return answer

    return called


def _with_points(put_file: Callable[..., ObjectInfo], points: Points, role: str) -> Callable[..., ObjectInfo]:
    """Points around the upload of what a render or a merge made, or what a plan or a submission brought."""

    @wraps(put_file)
    def put(self: Any, key: str, path: Path, **more: Any) -> ObjectInfo:
        point = "" if "/chunks/" in key else "merge-" if "/merges/" in key else f"{role}-other-"
        points.reach(f"{point}after-encode")
        _uploading.now = "/chunks/" in key
        try:
            info = put_file(self, key, path, **more)
        finally:
            _uploading.now = False
        points.reach(f"{point}after-upload")
        return info

    return put


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
