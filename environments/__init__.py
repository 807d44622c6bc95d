"""Environments play tasks. Each is a plain session object; ``wire.py`` shows one to OpenEnv."""

from __future__ import annotations

from ..registry import Registry

ENVIRONMENTS = Registry(
    "environment",
    "etude.environments",
    {"coding": ".environments.coding.session:CodingSession", "drill": ".environments.drill.session:DrillSession"},
)
