"""Seeded randomness: numbers and streams that depend on names and seeds alone, equal in every process."""

from __future__ import annotations

import hashlib
import random


def hashed_number(text: str) -> int:
    """Return a number below 2**64 that depends on ``text`` alone: the first 8 bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big")


def stream(seed: int, name: str, index: int | str = 0) -> random.Random:
    """Return an independent random stream for (seed, name, index); streams of neighbouring seeds share nothing."""
    return random.Random(hashed_number(f"{seed}\0{name}\0{index}"))
