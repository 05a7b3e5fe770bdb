"""Real servers for tests, each a process of its own on a free loopback port, ended with the test session.

Import the fixtures that a folder's tests need into its conftest.py.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_RUNNING = re.compile(rb"Running on (http://127\.0\.0\.1:\d+)")
CREDENTIALS = ("test", "test")


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def http_server(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """Run a server; gives the URL from the line in which it says that it runs."""
    process = subprocess.Popen(argv, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    lines: list[bytes] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if found := _RUNNING.search(line):
                break
        else:
            raise RuntimeError(f"{argv[0]} did not start:\n" + b"".join(lines).decode())
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        yield found[1].decode()
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _environment(home: Path) -> dict[str, str]:
    found = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**found, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """moto's S3: events, tags, versions; does not check signatures."""
    home = tmp_path_factory.mktemp("moto")
    with http_server([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], _environment(home)) as url:
        yield url


@contextmanager
def ministack(home: Path) -> Iterator[str]:
    """ministack's S3 (and SQS): checks signatures and expiry of signed URLs. Loopback only, no MQTT, no SFTP."""
    env = _environment(home) | {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(free_port()),
        "SERVICES": "s3,sqs",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "S3_PERSIST": "1",
        "PERSIST_STATE": "1",
        "S3_DATA_DIR": str(home / "data"),
        "STATE_DIR": str(home / "state"),
    }
    with http_server([sys.executable, "-m", "ministack"], env) as url:
        yield url


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack")) as url:
        yield url
