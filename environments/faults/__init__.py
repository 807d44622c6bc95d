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
        "renamed": ".environments.faults.kinds.changed_tools:renamed",
        "withdrawn": ".environments.faults.kinds.changed_tools:withdrawn",
        "changed_schema": ".environments.faults.kinds.changed_tools:changed_schema",
        "transient": ".environments.faults.kinds.refused_calls:transient",
        "timeout": ".environments.faults.kinds.refused_calls:timeout",
        "truncated": ".environments.faults.kinds.changed_results:truncated",
        "garbled": ".environments.faults.kinds.changed_results:garbled",
        "stale_read": ".environments.faults.kinds.changed_results:stale_read",
        "permission": ".environments.faults.kinds.refused_calls:permission",
        "rate_limit": ".environments.faults.kinds.refused_calls:rate_limit",
        "wrong_directory": ".environments.faults.kinds.changed_arguments:wrong_directory",
        "partial_write": ".environments.faults.kinds.changed_arguments:partial_write",
    },
)
# Schedules draw from the kinds in this order: another order would change every seed.
