"""The house: which room may use which, and which frameworks each may know. Checked on the imports themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import farm

PACKAGE = Path(farm.__file__).parent
PLAIN = {"errors", "invalid", "settings", "recipe", "resources", "log", "words"}
USES = {
    "db": PLAIN,
    "store": PLAIN,
    "media": PLAIN,
    "inference": PLAIN,
    "jobs": PLAIN | {"db"},
    "chunker": PLAIN | {"media", "store"},
    "merger": PLAIN | {"media", "store"},
    "faces": PLAIN | {"media", "inference", "store"},
    "provenance": PLAIN | {"media"},
    "sample": PLAIN | {"media", "inference", "faces"},
}
FRAMEWORKS = {"flask", "apiflask", "celery", "kombu", "boto3", "botocore", "av", "ffmpeg", "imageio_ffmpeg"}
KNOWN_TO = {
    "av": {"media", "merger", "sample"},
    "ffmpeg": {"media", "merger"},
    "imageio_ffmpeg": {"media"},
    "boto3": {"store"},
    "botocore": {"store"},
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, by its full name, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", USES)
def test_arrows_run_downwards(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        used = {name.split(".")[1] for name in imports(path) if name.startswith("farm.")}
        wrong = {
            name
            for name in used - USES[room] - {room}
            if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()
        }
        assert not wrong, f"{path.relative_to(PACKAGE)} uses {sorted(wrong)}"


@pytest.mark.parametrize("room", USES)
def test_frameworks_stay_in_their_rooms(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        used = {name.split(".")[0] for name in imports(path)} & FRAMEWORKS
        wrong = {name for name in used if room not in KNOWN_TO.get(name, set())}
        assert not wrong, f"{path.relative_to(PACKAGE)} knows {sorted(wrong)}"


def test_modules_are_short() -> None:
    long = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > 420
    }
    assert not long
