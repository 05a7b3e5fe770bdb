"""The reconciler's quick duties do not wait for its slow ones."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from farm.cli import reconciler
from farm.settings import Settings


@dataclass
class Duty:
    name: str
    act: threading.Event
    wait: threading.Event | None = None

    def run_once(self) -> int:
        self.act.set()
        if self.wait is not None:
            assert self.wait.wait(30)
        return 0


def test_leases_are_looked_at_while_a_webhook_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hanging, release, looked, stop = (threading.Event() for _ in range(4))
    duties = [Duty("webhooks", hanging, release), Duty("leases", looked)]
    monkeypatch.setattr(reconciler, "make_services", lambda *_: duties)
    settings = Settings(
        home=tmp_path, database_url="postgresql://nowhere/x", store=f"file://{tmp_path}", url_secret="s" * 16
    )  # type: ignore[arg-type]
    running = threading.Thread(target=reconciler.run, args=(settings, stop))
    running.start()
    assert hanging.wait(30)
    looked.clear()
    assert looked.wait(30), "leases are looked at again although the webhook has not answered"
    stop.set()
    release.set()
    running.join(30)
    assert not running.is_alive()


def test_every_slow_duty_exists(tmp_path: Path) -> None:
    from farm.jobs.reconcile import StaleCleaner, WebhookSender
    from farm.orphans import OrphanSweeper
    from farm.removal import JobRemover
    from farm.retention import Retention

    assert {
        duty.name for duty in (StaleCleaner, WebhookSender, OrphanSweeper, JobRemover, Retention)
    } == reconciler.SLOW
