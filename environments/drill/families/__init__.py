"""Families of drills: functions from a seeded ``Deal`` to a ``Drill``, one file each.

Third parties register a family in the entry-point group ``etude.drills``; its docstring describes it.
"""

from __future__ import annotations

from ....registry import Registry

FAMILIES = Registry(
    "family",
    "etude.drills",
    {
        "choose": ".environments.drill.families.choose:make",
        "schema": ".environments.drill.families.schema:make",
        "chain": ".environments.drill.families.chain:make",
        "recover": ".environments.drill.families.recover:make",
        "stop": ".environments.drill.families.stop:make",
        "verbs": ".environments.drill.families.verbs:make",
    },
)
