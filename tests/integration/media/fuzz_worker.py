"""Feeds damaged copies of clips to the reading half of the media layer; run by test_fuzz in a process of its own.

Prints one line before each case and one after, so that the parent knows which case a crash or a hang belongs to.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from itertools import islice
from pathlib import Path

from farm.chunker.cut import PlateCutter
from farm.errors import FarmError
from farm.media.probe import probe
from farm.media.reader import read_segment

FRAMES_READ = 40


def damage(data: bytes, rng: random.Random) -> bytes:
    """A copy that was cut off, had bits flipped, or bytes overwritten, taken out or doubled."""
    kind = rng.choice(("cut", "flip", "flip", "overwrite", "remove", "double"))
    if kind == "cut":
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    # Half of the damage goes into the head, where sizes and counts lie.
    reach = len(data) if rng.random() < 0.5 else min(len(data), 4096)
    for _ in range(rng.choice((1, 3, 20))):
        at = rng.randrange(reach)
        if kind == "flip":
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif kind == "overwrite":
            changed[at : at + 4] = rng.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", rng.randbytes(4)))
        elif kind == "remove":
            del changed[at : at + rng.randrange(1, 64)]
        else:
            changed[at:at] = changed[at : at + rng.randrange(1, 64)]
    return bytes(changed)


def peak_kib() -> int:
    """Largest resident size of this program; `getrusage` would also count the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def attempt(path: Path, folder: Path) -> str:
    """Probe, plan, cut and read a little; how it ended."""
    try:
        facts = probe(path)
        cutter = PlateCutter(path, facts, folder, target_seconds=0.5, before=1)
        frames = 0
        for chunk in islice(cutter.run(), 3):
            timeline, segment = cutter.timeline(), chunk.segment
            frames += sum(
                1 for _ in islice(read_segment(segment.path, facts, timeline, segment.first, segment.last), FRAMES_READ)
            )
            segment.path.unlink()
    except FarmError as error:
        return f"refused {type(error).__name__}"
    return f"read {frames}"


def say(line: str) -> None:
    """One line, out at once: what comes after may not return."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(corpus: str, scratch: str, seed: int, seconds: float, cases: int) -> None:
    sources = sorted(Path(corpus).iterdir())
    end = time.monotonic() + seconds
    for case in range(cases):
        if time.monotonic() > end:
            break
        rng = random.Random(seed * 1_000_003 + case)
        source = rng.choice(sources)
        say(f"case {seed}/{case} {source.name}")
        path = Path(scratch) / f"fuzz{source.suffix}"
        path.write_bytes(damage(source.read_bytes(), rng))
        say(f"end {attempt(path, Path(scratch) / 'segments')}")
    say(f"rss {peak_kib()}")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (6 * 1024**3, 6 * 1024**3))
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
