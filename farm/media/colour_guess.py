"""What players assume of pictures that do not say how their colours are coded."""

from __future__ import annotations


def guess_matrix(height: int) -> str:
    """ "bt709" for pictures of 720 lines or more, else "smpte170m" (BT.601)."""
    return "bt709" if height >= 720 else "smpte170m"
