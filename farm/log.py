"""Structured logs: one line per event, with the job, chunk, attempt and worker it belongs to, and nothing personal.

`configure` is called once by each program; modules use `structlog.get_logger(__name__)` and name an event in a few
words with its facts as fields. `bind` gives every later line of this context (thread or task) its ids.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

REDACTED = "[redacted]"

# Fields whose values may name a person, a file or a secret; matched on the whole key or on its last word.
_PRIVATE_WORDS = frozenset(
    {
        "authorization", "caption", "cookie", "credential", "credentials", "dsn", "email", "embedding",
        "embeddings", "face", "filename", "key", "landmarks", "name", "password", "path", "picture", "secret",
        "source", "tenant", "thumbnail", "title", "token", "uri", "url", "user",
    }
)  # fmt: skip
# Whole keys that end in such a word and are harmless: names that the farm itself gives.
_HARMLESS = frozenset({"object_key", "model_name", "recipe_name", "deliverable_name", "service_name"})


def is_private(key: str) -> bool:
    return key not in _HARMLESS and key.lower().rsplit("_", 1)[-1] in _PRIVATE_WORDS


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of private fields, at any depth of dicts and lists."""
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if is_private(key):
        return REDACTED
    if isinstance(value, dict):
        return {inner: _clean(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean("", item) for item in value]
    return value


def processors(*, json: bool, colours: bool = False) -> list[Processor]:
    """The chain that every line passes. Tracebacks are plain text: others would print the values of local variables."""
    render: list[Processor] = (
        [redact, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if json
        else [redact, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)]
    )
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        *render,
    ]


def configure(
    level: str = "info", style: Literal["auto", "json", "console"] = "auto", *, stream: TextIO | None = None
) -> None:
    """Send structlog's and the standard library's records through one chain to `stream` (default: stderr)."""
    out = stream if stream is not None else sys.stderr
    terminal = out.isatty()
    json = style == "json" or (style == "auto" and not terminal)
    chain = processors(json=json, colours=terminal)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *chain[:1], *chain[2:-1], _to_stdlib],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=chain[:-1], processors=[_drop_meta, chain[-1]])
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


_to_stdlib = structlog.stdlib.ProcessorFormatter.wrap_for_formatter
_drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta


def line_formatter() -> logging.Formatter:
    """Plain lines without colours, for a log that people read as a file."""
    chain = processors(json=False)
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=chain[:-2], processors=[_drop_meta, *chain[-2:]])


# Each has to take a time that grows with the text's length and no faster: the text may be anybody's.
_QUOTED_PATH = re.compile(r"""(['"])(/[^'"\n]*)\1""")
_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20})://[^\s'\"]+", re.IGNORECASE)
_BARE_PATH = re.compile(r"(?<![\w.\]/-])/(?:[\w.@%+~=-]+/)+[\w.@%+~=-]*")
_SECRET = re.compile(r"(?i)\b(bearer|token|secret|password|passwd|authorization)(['\"]?\s*[:= ]\s*)\S+")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,100}")
_OWN_CODE = re.compile(r".*/((?:farm|site-packages|lib/python3\.\d+)/.+)")


def scrubbed(text: str) -> str:
    """Free text, such as a library's message or a traceback, without file names, addresses and secrets.

    Places in the farm's own and its libraries' code stay, without the folder that they were installed in.
    """
    text = _URL.sub(rf"\1://{REDACTED}", text)
    text = _QUOTED_PATH.sub(lambda found: f"{found[1]}{_without_folder(found[2])}{found[1]}", text)
    text = _BARE_PATH.sub(lambda found: _without_folder(found[0]), text)
    text = _SECRET.sub(rf"\1\2{REDACTED}", text)
    return _MAIL.sub(REDACTED, text)


def _without_folder(path: str) -> str:
    own = _OWN_CODE.fullmatch(path)
    return own[1] if own and own[1].endswith((".py", ".so")) else REDACTED


def bind(**ids: str | int | None) -> None:
    """Add ids (job, chunk, attempt, worker) to every later line of this context; None removes one."""
    structlog.contextvars.bind_contextvars(**{key: value for key, value in ids.items() if value is not None})
    structlog.contextvars.unbind_contextvars(*(key for key, value in ids.items() if value is None))


@contextmanager
def bound(**ids: str | int) -> Iterator[None]:
    """Add ids to the lines of one block."""
    with structlog.contextvars.bound_contextvars(**ids):
        yield
