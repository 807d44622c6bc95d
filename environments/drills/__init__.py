"""Families of drills. Each is a function from a seeded ``Deal`` to a ``Drill``; ``tasks.py`` makes rows of them."""

from __future__ import annotations

from ...registry import Registry

FAMILIES = Registry(
    "family",
    "etude.drills",
    {
        "choose": ".environments.drills.choose:make",
        "schema": ".environments.drills.schema:make",
        "chain": ".environments.drills.chain:make",
        "recover": ".environments.drills.recover:make",
        "stop": ".environments.drills.stop:make",
        "verbs": ".environments.drills.verbs:make",
    },
)
