"""How much memory a slot may take: a plate that makes a decoder eat memory must fail its own task, not the machine."""

from __future__ import annotations

import resource

import psutil

from farm.settings import Settings


def memory_limit(settings: Settings, machine_bytes: int) -> int | None:
    """Bytes; None for no limit: the driver of a card takes address space that it never fills."""
    if settings.slot_memory_mib is not None:
        return settings.slot_memory_mib << 20
    return None if settings.slot_vram_mib else machine_bytes


def limit_memory(settings: Settings) -> None:
    """Limit this process; what goes beyond is refused, and the task ends as out of memory."""
    limit = memory_limit(settings, psutil.virtual_memory().total)
    if limit is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
