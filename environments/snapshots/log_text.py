"""Logs of other programs, cut down to one line for an error text."""

from __future__ import annotations


def last_lines(log: str | bytes, count: int = 8) -> str:
    """Return the last ``count`` lines of a log that are not empty, joined on one line."""
    text = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "(no output)"
