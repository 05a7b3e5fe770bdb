"""How much memory a slot may take."""

from __future__ import annotations

import subprocess
import sys

import pytest

from farm.settings import Settings
from farm.worker.memory import memory_limit

MACHINE = 8 << 30


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (Settings(), MACHINE),
        (Settings(slot_vram_mib=4000), None),
        (Settings(slot_memory_mib=2048), 2 << 30),
        (Settings(slot_memory_mib=2048, slot_vram_mib=4000), 2 << 30),
    ],
)
def test_limit(settings: Settings, limit: int | None) -> None:
    assert memory_limit(settings, MACHINE) == limit


def test_a_slot_that_wants_more_gets_an_error_and_lives_on() -> None:
    program = (
        "from farm.settings import Settings\n"
        "from farm.worker.memory import limit_memory\n"
        "limit_memory(Settings(slot_memory_mib=1024))\n"
        "try:\n    bytearray(2 << 30)\nexcept MemoryError:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "refused\n"
