"""Faults that can be put into an episode, one file each; ``schedule.py`` says when, ``desk.py`` carries them out."""

from __future__ import annotations

from ...registry import Registry

FAULTS = Registry(
    "fault",
    "etude.faults",
    {
        name: f".environments.faults.kinds.{name}:FAULT"
        for name in (
            "renamed",
            "withdrawn",
            "changed_schema",
            "transient",
            "timeout",
            "truncated",
            "garbled",
            "stale_read",
            "permission",
            "rate_limit",
            "wrong_directory",
            "partial_write",
        )
    },
)
