"""Families of drills. Each is a function from a seeded ``Deal`` to a ``Drill``; ``tasks.py`` makes rows of them."""

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
