"""The `farm` command. Exit codes: 0 done, 1 failed, 2 bad input, 3 refused by policy.

On anything but 0 the last line on stderr says the reason and what to do. Data goes to stdout, all else to stderr.
"""

from __future__ import annotations

from farm.cli.program import main

__all__ = ["main"]
