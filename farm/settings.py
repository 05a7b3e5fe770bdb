"""Every setting of the farm, in one class. Each is an environment variable FARM_<NAME>, or a line of a `.env` file.

A secret may also be given as the path of a file that holds it: FARM_<NAME>_FILE (as container platforms mount them).
`docs/settings.md` is made from this class: `python -m farm.settings > docs/settings.md`.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from farm.errors import InputError
from farm.invalid import faults

PREFIX = "FARM_"
GIB = 2**30
MIB = 2**20

Names = Annotated[tuple[str, ...], NoDecode]


def default_home() -> Path:
    """$XDG_DATA_HOME/facefarm, by default ~/.local/share/facefarm."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "facefarm"


class SecretFileSource(PydanticBaseSettingsSource):
    """Reads FARM_<NAME>_FILE for every secret: the file's text without its last line break."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"{PREFIX}{field_name.upper()}_FILE")
        if path is None or not is_secret(field):
            return None, field_name, False
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n"), field_name, False
        except OSError as error:
            raise InputError(
                f"The secret's file cannot be read: {error.strerror}.",
                where=f"{PREFIX}{field_name.upper()}_FILE",
                do="Give the path of a file that this user can read.",
            ) from error

    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value is not None}


def is_secret(field: FieldInfo) -> bool:
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


class Settings(BaseSettings):
    """What a deployment decides. Made by `load_settings`, which turns a wrong value into an InputError."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    home: Path = Field(
        default_factory=default_home,
        description="Folder of the embedded farm: database, store, logs, secrets.",
    )
    url: str | None = Field(
        default=None,
        description="Base URL of the farm's API, for the commands that talk to one and for links. "
        "Unset: commands use the embedded farm in FARM_HOME.",
    )

    database_url: str | None = Field(
        default=None,
        description="PostgreSQL, as a SQLAlchemy URL (`postgresql+psycopg://user:password@host/name`). "
        "The embedded farm sets it for its own services.",
    )
    database_pool_size: int = Field(default=8, ge=1, le=200, description="Most database connections per process.")
    broker_url: str | None = Field(
        default=None,
        description="Celery broker: `redis://`, `rediss://`, `redis+socket://` or `amqp://`. Wake-ups only.",
    )

    store: str | None = Field(
        default=None,
        description="Where objects lie: `file:///folder` or `s3://bucket/prefix`. "
        "The embedded farm uses a folder in FARM_HOME.",
    )
    s3_endpoint: str | None = Field(default=None, description="URL of an S3-compatible server; unset: AWS.")
    s3_region: str | None = Field(default=None, description="Region of the bucket; unset: the AWS client's own choice.")
    s3_access_key: SecretStr | None = Field(
        default=None, description="Access key; unset: the AWS client's own chain (role, profile, environment)."
    )
    s3_secret_key: SecretStr | None = Field(default=None, description="Secret key that belongs to the access key.")
    s3_path_style: bool = Field(
        default=False, description="Address the bucket in the path, as most S3-compatible servers want."
    )
    s3_server_side_encryption: Literal["AES256", "aws:kms"] | None = Field(
        default=None, description="Ask for this encryption at rest with each object; unset: the bucket's default."
    )
    signed_url_seconds: int = Field(
        default=900, ge=30, le=604_800, description="How long a download link is good, seconds."
    )
    stale_upload_hours: int = Field(
        default=24, ge=1, description="Unfinished uploads older than this are dropped, hours."
    )
    retain_working_days: int | None = Field(
        default=7, ge=0, description="Segments and chunk results of a job are kept so long after its end, days."
    )
    retain_log_days: int | None = Field(
        default=30, ge=0, description="Logs of attempts are kept so long after their job's end, days; unset: for ever."
    )
    retain_inputs_days: int | None = Field(
        default=None, ge=0, description="Plates, pictures and identities are kept so long, days; unset: for ever."
    )
    retain_deliverables_days: int | None = Field(
        default=None, ge=0, description="Deliverables are kept so long after a job's end, days; unset: for ever."
    )

    api_host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    api_port: int = Field(default=0, ge=0, le=65_535, description="Port that the API listens on; 0: any free one.")
    api_fd: int | None = Field(
        default=None,
        ge=0,
        description="Number of an open, listening socket that the API inherits and uses instead of host and port.",
    )
    api_threads: int = Field(
        default=16, ge=2, le=512, description="Threads of the API process; each live view holds one."
    )
    max_plate_bytes: int = Field(default=512 * GIB, ge=1, description="Largest plate that may be uploaded, bytes.")
    max_picture_bytes: int = Field(default=32 * MIB, ge=1, description="Largest reference picture, bytes.")
    max_pictures: int = Field(default=16, ge=1, description="Most reference pictures of one identity.")
    max_clip_bytes: int = Field(default=4 * GIB, ge=1, description="Largest clip of an identity, bytes.")
    max_clip_seconds: int = Field(default=600, ge=1, description="Longest clip of an identity, seconds.")
    max_clips: int = Field(default=8, ge=0, description="Most clips of one identity; 0: pictures only.")
    max_plate_seconds: int = Field(default=6 * 3600, ge=1, description="Longest plate, seconds.")

    chunk_seconds: float = Field(
        default=20.0, ge=0.5, le=120, description="Length of a chunk that the chunker aims at, seconds."
    )
    lease_seconds: float = Field(
        default=30.0, ge=1, description="A task whose worker was not heard of for so long is given to another, seconds."
    )
    heartbeat_seconds: float = Field(
        default=2.0,
        gt=0,
        description="How often a running task reports progress, and so how soon it hears of a cancel, seconds.",
    )
    heartbeats_per_second: float = Field(
        default=500.0,
        gt=0,
        description="What the database takes of all running tasks together; with more of them each reports less often.",
    )
    reconcile_seconds: float = Field(
        default=2.0, gt=0, description="How often the reconciler looks for work left undone, seconds."
    )
    max_attempts: int = Field(default=5, ge=1, description="Most charged attempts of one task before the job fails.")
    max_retries: int = Field(
        default=200, ge=0, description="Most charged failures of all tasks of one job together; more fail the job."
    )

    slots: int = Field(default=0, ge=0, le=256, description="Tasks that a worker runs side by side; 0: as many as fit.")
    threads: int = Field(
        default=0, ge=0, le=1024, description="CPU threads per slot; 0: the cores shared out among the slots."
    )
    worker_name: str | None = Field(
        default=None,
        description="Name of this machine's workers, unique in the farm; unset: the host's name. A worker that starts "
        "under a known name takes over from the one that had it.",
    )
    worker_id: str | None = Field(
        default=None, description="Id of one worker; `farm worker` sets it for the processes that it starts."
    )
    recycle_tasks: int = Field(
        default=0, ge=0, description="Tasks after which a slot's process is replaced by a fresh one; 0: never."
    )
    slot_vram_mib: int = Field(
        default=0,
        ge=0,
        description="GPU memory that one slot offers to jobs, MiB; `farm worker` sets it from the card and its slots.",
    )
    slot_memory_mib: int | None = Field(
        default=None,
        ge=1024,
        description="Memory that one slot may take, MiB; a task that wants more ends as out of memory. By default all "
        "of the machine's without a card, and no limit with one.",
    )
    preview_seconds: float = Field(
        default=1.0,
        ge=0,
        le=3600,
        description="How often a slot shows what it renders, plate and result side by side, seconds; 0: never.",
    )
    reconciler_metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port on which `farm reconciler` tells Prometheus of its duties; 0: none.",
    )
    slot_codecs: Names = Field(
        default=(), description="Hardware encoders of this worker's card, by comma; `farm worker` finds and sets them."
    )
    worker_metrics_port: int = Field(
        default=0, ge=0, le=65535, description="Port on which `farm worker` tells Prometheus of its cards; 0: none."
    )
    worker_rate: float | None = Field(
        default=None,
        ge=0,
        description="What an hour of one slot of this worker costs, in money; unset: nothing is said.",
    )
    preemption: str | None = Field(
        default=None,
        description="Where a notice that this machine is taken away shows: `aws`, `gcp`, or the path of a file that "
        "appears then (its text: seconds left, or a time). Unset: nowhere.",
    )
    worker_tags: Names = Field(
        default=(), description="Tags of this worker, by comma; a tagged job runs only on such workers."
    )
    providers: Names = Field(
        default=(),
        description="Execution providers to use, best first, by comma; unset: what works, TensorRT, CUDA, CPU.",
    )
    back_end: Literal["auto", "cpu", "twin"] = Field(
        default="auto",
        description="Where frames are rendered. `auto`: on the card where there is one and recipe and plate fit, "
        "else by the processor; `cpu`: by the processor; `twin`: the card's path computed by the processor, for tests.",
    )
    scratch: Path | None = Field(
        default=None, description="Folder for files while a task runs; unset: a folder in the system's temporary one."
    )
    drain_seconds: float = Field(
        default=100.0, ge=0, description="How long a worker told to stop may finish its tasks, seconds."
    )
    models_dir: Path | None = Field(
        default=None, description="Folder with catalogue entries of this deployment, beside the bundled ones."
    )

    allowed_licences: Names = Field(
        default=("permissive",),
        description="Licence classes of models that jobs may use, by comma: `permissive`, `copyleft`, "
        "`responsible-use`, `non-commercial`, `unclear`.",
    )
    consent_policy: Literal["attest", "grant"] = Field(
        default="attest",
        description="`attest` records the submitter's statement; `grant` refuses a job without a recorded grant.",
    )
    label_policy: Literal["always", "by_grant"] = Field(
        default="by_grant",
        description="`always` puts the visible label on every changed deliverable; `by_grant` leaves it off a clean "
        "master that a grant allows.",
    )
    producer: str = Field(
        default="facefarm",
        description="Who made the deliverable, as its AIGC mark says (in China: the 27-character provider code).",
    )
    webhook_private_hosts: bool = Field(
        default=False, description="Allow webhooks to loopback, link-local and private addresses."
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="`auto`: coloured lines on a terminal, JSON lines elsewhere."
    )

    url_secret: SecretStr | None = Field(
        default=None, description="Signs the folder store's download links. The embedded farm makes its own."
    )
    session_secret: SecretStr | None = Field(
        default=None, description="Signs the pages' cookies and form tokens. The embedded farm makes its own."
    )
    worker_secret: SecretStr | None = Field(
        default=None,
        description="The worker's key, as `farm workers register` prints it, where the farm asks for one. "
        "The embedded farm makes its own.",
    )
    permit_key_path: Path | None = Field(
        default=None,
        description="File of the private key with which the API and the reconciler sign permits; made when it is not "
        "there. Unset: `secrets/permit.pem` in FARM_HOME.",
    )
    permit_public_key: str | None = Field(
        default=None,
        description="The public half, by which workers know a permit (`farm permit-key` prints it). "
        "The embedded farm sets it.",
    )
    api_token: SecretStr | None = Field(
        default=None, description="Bearer token that the commands send, and that an API not on loopback asks for."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, SecretFileSource(settings_cls), dotenv_settings

    @field_validator("worker_tags", "slot_codecs", "providers", "allowed_licences", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("home", "scratch", "models_dir")
    @classmethod
    def _make_absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value else None

    @field_validator("store")
    @classmethod
    def _check_store(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        named = parts.netloc if parts.scheme == "s3" else parts.path.startswith("/") and not parts.netloc
        if parts.scheme not in ("file", "s3") or not named:
            raise ValueError("give file:///absolute/folder or s3://bucket/prefix")
        return value

    def environment(self) -> dict[str, str]:
        """The variables that give another process, in whatever folder it runs, the settings that were set here."""
        return {f"{PREFIX}{name.upper()}": _as_text(getattr(self, name)) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if self.heartbeat_seconds * 2 > self.lease_seconds:
            raise ValueError("FARM_LEASE_SECONDS must be at least twice FARM_HEARTBEAT_SECONDS")
        return self


def _as_text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def required(settings: Settings, name: Literal["database_url", "broker_url", "worker_id", "permit_public_key"]) -> str:
    """A setting that this program cannot do without; InputError when it is not set."""
    value: str | None = getattr(settings, name)
    if value is None:
        raise InputError(
            "It is not set, and this program needs it.",
            where=f"{PREFIX}{name.upper()}",
            do="Set it (`docs/settings.md`), or use `farm up`, which sets all of them.",
        )
    return value


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process; `overrides` win over the environment. InputError names every wrong one."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        wrong = "; ".join(
            f"{PREFIX}{fault.field.split('.')[0].upper()}: {fault.why}" if fault.field else fault.why
            for fault in faults(error)
        )
        raise InputError(
            f"The settings are not usable: {wrong}.", where="settings", do="`docs/settings.md` lists every setting."
        ) from None


def _type_words(annotation: Any) -> str:
    origin, args = get_origin(annotation), [a for a in get_args(annotation) if a is not type(None)]
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in args)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_words(a) for a in args)
    if origin is Annotated or origin is tuple:
        return "list"
    words = {str: "text", int: "integer", float: "number", bool: "true or false", Path: "path", SecretStr: "secret"}
    return words[annotation]


def _default_words(name: str, field: FieldInfo) -> str:
    if name == "home":
        return "`~/.local/share/facefarm`"
    value = field.default
    if value is None or value == ():
        return "unset"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def settings_markdown() -> str:
    """The text of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Made from `farm/settings.py` by `python -m farm.settings`; do not edit. Each setting is an environment",
        "variable or a line of a `.env` file in the working folder. A secret `FARM_X` may instead be given as",
        "`FARM_X_FILE`, the path of a file that holds it. Lists are written with commas.",
        "",
        "| variable | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        meaning = (field.description or "").replace("|", "\\|")
        kind, default = _type_words(field.annotation), _default_words(name, field)
        lines.append(f"| `{PREFIX}{name.upper()}` | {kind} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(settings_markdown())
