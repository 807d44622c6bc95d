"""Chances that a name decides."""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, name: str, index: int | str = 0) -> random.Random:
    """An independent random stream per (seed, name, index), so that neighbouring seeds share nothing."""
    digest = hashlib.sha256(f"{seed}\0{name}\0{index}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
