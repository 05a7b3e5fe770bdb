"""Notices that a machine is to be taken away, as clouds give them for spot and preemptible machines.

AWS: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html (two minutes ahead, in
the instance's metadata, version 2 of the service). Google Cloud: instance/preempted in the metadata (30 s ahead).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import requests

METADATA = "http://169.254.169.254"
GCP_METADATA = "http://metadata.google.internal"
GCP_SECONDS = 30.0
_TIMEOUT = 1.0
_TOKEN_SECONDS = 21_600
_PAUSE_AFTER_ERROR = 30.0


class Notice(Protocol):
    """Asked about once a second."""

    def seconds_left(self) -> float | None:
        """How long this machine is still there; None while nobody wants it back."""
        ...


def utc_now() -> datetime:
    return datetime.now(UTC)


def seconds_until(moment: str, now: datetime) -> float:
    """From `now` to an RFC 3339 time or after a number of seconds; 0 where it is neither, since it has come."""
    text = moment.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        due = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return max(0.0, (due.replace(tzinfo=due.tzinfo or UTC) - now).total_seconds())


class NoNotice:
    """A machine that nobody takes away."""

    def seconds_left(self) -> float | None:
        return None


class FileNotice:
    """A file that appears: written by whatever knows (a node's agent, a pre-stop hook)."""

    def __init__(self, path: Path, now: Callable[[], datetime] = utc_now) -> None:
        self._path = path
        self._now = now

    def seconds_left(self) -> float | None:
        try:
            return seconds_until(self._path.read_text(encoding="utf-8"), self._now())
        except OSError:
            return None


class _Metadata(ABC):
    """A cloud's metadata service; one that does not answer is left alone for a while."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self._url = url
        self._clock = clock
        self._http = requests.Session()
        self._http.trust_env = False
        self._again = 0.0

    def seconds_left(self) -> float | None:
        if self._clock() < self._again:
            return None
        try:
            return self._ask()
        except requests.RequestException:
            self._again = self._clock() + _PAUSE_AFTER_ERROR
            return None

    @abstractmethod
    def _ask(self) -> float | None: ...


class AwsNotice(_Metadata):
    """EC2's spot/instance-action."""

    def __init__(
        self,
        url: str = METADATA,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(url, clock)
        self._now = now
        self._token: tuple[str, float] | None = None

    def _ask(self) -> float | None:
        answer = self._http.get(
            f"{self._url}/latest/meta-data/spot/instance-action",
            headers={"X-aws-ec2-metadata-token": self._fresh_token()},
            timeout=_TIMEOUT,
        )
        if answer.status_code == 404:
            return None
        if answer.status_code == 401:
            self._token = None
            return None
        answer.raise_for_status()
        return seconds_until(str(answer.json().get("time", "")), self._now())

    def _fresh_token(self) -> str:
        if self._token is None or self._clock() >= self._token[1]:
            answer = self._http.put(
                f"{self._url}/latest/api/token",
                headers={"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)},
                timeout=_TIMEOUT,
            )
            answer.raise_for_status()
            self._token = (answer.text, self._clock() + _TOKEN_SECONDS / 2)
        return self._token[0]


class GcpNotice(_Metadata):
    """Google Cloud's instance/preempted."""

    def __init__(self, url: str = GCP_METADATA, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(url, clock)

    def _ask(self) -> float | None:
        answer = self._http.get(
            f"{self._url}/computeMetadata/v1/instance/preempted",
            headers={"Metadata-Flavor": "Google"},
            timeout=_TIMEOUT,
        )
        answer.raise_for_status()
        return GCP_SECONDS if answer.text.strip().upper() == "TRUE" else None


def make_notice(setting: str | None) -> Notice:
    """What FARM_PREEMPTION names: "aws", "gcp", a file, or nothing."""
    if setting is None:
        return NoNotice()
    if setting == "aws":
        return AwsNotice()
    if setting == "gcp":
        return GcpNotice()
    return FileNotice(Path(setting))
