"""What can go wrong when a snapshot is made: one type each, one line, with the remedy."""

from __future__ import annotations


def last_lines(log: str | bytes, count: int = 8) -> str:
    """The end of a log on one line: what a person needs to see of it."""
    text = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "(no output)"
