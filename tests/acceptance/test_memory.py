"""A slot's memory does not grow with the length of the plate."""

from fractions import Fraction
from pathlib import Path

import psutil
import pytest

from farm.sample import generate
from tests.acceptance.conftest import Farm
from tests.acceptance.test_kill import celery_child


def peak_mib(pid: int) -> float:
    """Largest resident size of a process so far, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel does not tell")


def test_ten_times_the_length_needs_no_more_memory(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> None:
    peaks = []
    for seconds in (20, 200):
        folder = tmp_path_factory.mktemp("plate")
        plate = generate(folder, seconds=seconds, fps=Fraction(4), size=(320, 180), people=1).plate
        job = farm.finished(farm.submit(plate, chunk_seconds=120))
        assert job.progress.frames_total == 4 * seconds
        pid = celery_child(farm)[0]
        assert psutil.pid_exists(pid)
        peaks.append((pid, peak_mib(pid)))
    assert peaks[0][0] == peaks[1][0], "both plates were rendered by one process"
    assert peaks[1][1] <= 1.1 * peaks[0][1], f"peaks {peaks}"
