import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from farm.worker.scratch import Scratch


def test_a_folder_goes_with_its_attempt(tmp_path: Path) -> None:
    with Scratch(tmp_path).folder("a1") as folder:
        (folder / "x").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_when_the_attempt_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="boom"), Scratch(tmp_path).folder("a1"):
        raise ValueError("boom")
    assert list(tmp_path.iterdir()) == []


def test_the_dead_are_swept_and_the_living_kept(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from farm.worker.scratch import Scratch\n"
        "with Scratch(pathlib.Path(sys.argv[1])).folder('dead'): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    scratch = Scratch(tmp_path)
    with scratch.folder("alive") as alive:
        assert len(list(tmp_path.iterdir())) == 2
        assert scratch.sweep() == 1
        assert list(tmp_path.iterdir()) == [alive]


def test_a_living_process_is_known_even_after_its_clock_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux counts a process's time of start from the boot, whose date moves with the clock."""
    with Scratch(tmp_path).folder("alive") as alive:
        booted = psutil.boot_time()
        monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: booted + 3600)
        assert Scratch(tmp_path).sweep() == 0
        assert alive.is_dir()
