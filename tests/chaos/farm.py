"""Starts the farm under test, with all that it stands on: disks that can be filled, a bad line to S3, a broker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from farm.client import Client
from farm.db.engine import make_engine, make_sessions
from farm.local.farm import LocalFarm
from farm.local.postgres import Postgres
from farm.local.valkey import Valkey
from farm.sample import generate
from farm.settings import load_settings
from farm.store.factory import open_store
from farm.store.s3 import connect
from tests.acceptance.conftest import frame_hashes
from tests.chaos.bad_line import BadLine, bad_line
from tests.chaos.harness import LEASE, MARK, SWAP, UPSCALE, ChaosFarm, Materials, Watcher
from tests.chaos.partition import Relay, relay
from tests.chaos.points import Points
from tests.chaos.services import ENVIRONMENT, LINKS
from tests.media_factory import ffmpeg, picture, tone
from tests.rabbitmq import RabbitMQ, rabbitmq
from tests.services import http_server
from tests.stand_ins import stand_in_catalogue

SECONDS = 2.5
FACE_SECONDS = 1
PG_SOCKET = ".s.PGSQL.5432"
MODEL = "real-esrgan-x2"
BUCKET = "chaos"
FOLDER, S3 = "folder", "s3"
VALKEY, RABBITMQ = "valkey", "rabbitmq"
DISK, MODELS = "disk", "models"
_SIZES = {"scratch": "64m", "store": "256m", "tables": "16m", "log": "192m"}


@dataclass
class _Ground:
    """What the farm stands on. `has`: words for what scenarios may need."""

    settings: dict[str, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    has: set[str] = field(default_factory=set)
    line: BadLine | None = None
    endpoint: str = ""
    disks: dict[str, Path] = field(default_factory=dict)
    rabbitmq: RabbitMQ | None = None
    relays: dict[str, Relay] = field(default_factory=dict)


@contextmanager
def chaos_farm(folder: Path, *, store: str = FOLDER, broker: str = VALKEY, models: bool = True) -> Iterator[ChaosFarm]:
    """A farm of two slots, two reconcilers and two APIs in `folder`."""
    plate, home = folder / "plate.mkv", folder / "home"
    codecs = ("-c:v", "libx264", "-g", "12", "-c:a", "pcm_s16le")
    ffmpeg(
        *picture(seconds=SECONDS),
        *tone(SECONDS),
        *codecs,
        "-metadata",
        f"title={MARK}",
        "-write_crc32",
        "0",
        str(plate),
    )
    with ExitStack() as stack:
        ground = _Ground(has={store, broker})
        _lay(ground, stack, folder, store, broker)
        if models:
            stand_in_catalogue(folder / "models", home, [MODEL])
            ground.settings["models_dir"] = folder / "models"
            ground.has.add(MODELS)
        settings = load_settings(
            home=home, url=None, slots=2, threads=1, lease_seconds=LEASE, heartbeat_seconds=0.5, reconcile_seconds=0.5,
            drain_seconds=1, log_format="json", **ground.settings,
        )  # fmt: skip
        _lay_relays(ground, stack, home, broker)
        os.environ[ENVIRONMENT] = json.dumps(ground.environment)
        stack.callback(os.environ.pop, ENVIRONMENT)
        local = stack.enter_context(LocalFarm(home, settings, services="tests.chaos.services:chaos_services"))
        state = local.state
        assert state is not None
        client = Client(state.url)
        stack.callback(client.close)
        engine = make_engine(state.database_url, application="chaos", pool_size=4)
        stack.callback(engine.dispose)
        sessions = make_sessions(engine)
        direct = {
            "store": ground.environment.get("FARM_STORE", state.store),
            "url_secret": SecretStr(local.home.secret("url_secret").read_text().strip()),
            "s3_endpoint": ground.endpoint or None,
        }
        watcher = Watcher(sessions)
        watcher.start()
        stack.callback(watcher.stop)
        farm = ChaosFarm(
            local, client, sessions, Points(home / "chaos"), open_store(settings.model_copy(update=direct)), plate,
            frame_hashes(plate), folder, frozenset(ground.has), ground.line, ground.disks, watcher, ground.rabbitmq,
            relays=ground.relays,
        )  # fmt: skip
        if models:
            face = generate(folder / "face", seconds=FACE_SECONDS, size=(320, 180), people=1)
            tiny = folder / "tiny.mkv"
            ffmpeg(*picture(size="64x48", seconds=FACE_SECONDS), "-c:v", "libx264", str(tiny))
            farm.materials = Materials({SWAP: face.plate, UPSCALE: tiny})
        yield farm


def _lay(ground: _Ground, stack: ExitStack, folder: Path, store: str, broker: str) -> None:
    if store == S3:
        _lay_s3(ground, stack, folder)
    elif os.getuid() == 0 and (mount := shutil.which("mount")):
        _lay_disks(ground, stack, folder, mount)
    if broker == RABBITMQ:
        ground.rabbitmq = stack.enter_context(rabbitmq(folder / "rabbitmq"))
        ground.environment["FARM_BROKER_URL"] = ground.rabbitmq.url


def _lay_s3(ground: _Ground, stack: ExitStack, folder: Path) -> None:
    home = folder / "s3"
    home.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    ground.endpoint = stack.enter_context(http_server(argv, env))
    login = {"region": "us-east-1", "access_key": "test", "secret_key": "test"}
    connect(endpoint=ground.endpoint, path_style=True, **login).create_bucket(Bucket=BUCKET)
    ground.line = stack.enter_context(bad_line(ground.endpoint))
    parts = urlsplit(ground.line.url)
    assert parts.hostname is not None
    assert parts.port is not None
    between = stack.enter_context(relay(("127.0.0.1", 0), (parts.hostname, parts.port)))
    ground.relays["worker and S3"] = between
    ground.environment["worker:FARM_S3_ENDPOINT"] = f"http://127.0.0.1:{between.port}"
    ground.settings |= {f"s3_{name}": value for name, value in login.items()}
    ground.settings |= {"s3_endpoint": ground.line.url, "s3_path_style": True}
    ground.environment["FARM_STORE"] = f"s3://{BUCKET}/farm"


def _lay_relays(ground: _Ground, stack: ExitStack, home: Path, broker: str) -> None:
    """Ways to the database and to Valkey that can be parted. Where these are, the farm's supervisor says (`LINKS`)."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fcr-")))
    ground.environment[LINKS] = str(folder)
    for number, (between, roles) in enumerate(
        (("worker and database", ("worker",)), ("API, reconcilers and database", ("api", "reconciler")))
    ):
        postgres = Postgres(home, folder / str(number))
        postgres.sockets.mkdir()
        at, target = postgres.sockets / PG_SOCKET, folder / "postgres" / PG_SOCKET
        ground.relays[between] = stack.enter_context(relay(at, target))
        ground.environment |= {f"{role}:FARM_DATABASE_URL": postgres.url() for role in roles}
        ground.has.add(between)
    if broker == VALKEY:
        valkey, between = Valkey(home, folder), "everybody and the broker"
        ground.relays[between] = stack.enter_context(relay(valkey.socket, folder / "valkey" / valkey.socket.name))
        ground.environment["FARM_BROKER_URL"] = valkey.url()
        ground.has.add(between)


def _lay_disks(ground: _Ground, stack: ExitStack, folder: Path, mount: str) -> None:
    """Scratch and store on small file systems of their own, where this user may mount them."""
    for name, size in _SIZES.items():
        disk = folder / f"disk-{name}"
        disk.mkdir()
        done = subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True)
        if done.returncode:
            return
        stack.callback(subprocess.run, [str(Path(mount).with_name("umount")), "--lazy", str(disk)], check=True)
        ground.disks[name] = disk
    ground.environment["FARM_STORE"] = (ground.disks["store"] / "store").as_uri()
    ground.environment["FARM_SCRATCH"] = str(ground.disks["scratch"] / "scratch")
    ground.has.add(DISK)
