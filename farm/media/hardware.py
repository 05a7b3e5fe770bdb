"""Which hardware encoders work here: `python -m farm.media.hardware` prints their names, one a line.

A program of its own, since finding out touches the card, which the process that starts workers must not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from farm.media.deliverables import PRESETS
from farm.media.encoder_probe import Probe, probe_encoder

_SIDE = 256


def hardware_encoders(probe: Probe = probe_encoder) -> tuple[str, ...]:
    """The hardware encoders of all deliverables that encode a small frame in each sample format they are used with."""
    choices = [choice for preset in PRESETS.values() for choice in preset.encoders if choice.hardware]
    working = [
        choice.encoder
        for choice in choices
        if all(probe(choice, form, _SIDE, _SIDE) is None for form in choice.formats)
    ]
    return tuple(sorted(set(working)))


def probe_argv() -> Sequence[str]:
    """The command that asks in a process of its own."""
    return (sys.executable, "-m", "farm.media.hardware")


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in hardware_encoders()))
