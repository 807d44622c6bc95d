"""Faults that can be injected into the episodes of any environment.

Reading order: ``fault`` (what a fault sees of a call and may do to it), one file of ``kinds``, ``schedule`` (when
faults fall due), ``injector`` (carries a schedule out, call by call).
"""

from __future__ import annotations

from ...registry import Registry

FAULTS = Registry(
    "fault",
    "etude.faults",
    {
        name: f".environments.faults.kinds.{name}:strike"
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
