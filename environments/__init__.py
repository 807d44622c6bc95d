"""Environments: what plays tasks. Each is one class, a subclass of ``base.BaseSession``.

Reading order: ``session`` (the protocol between a session and its callers), ``declaration`` (what a new environment
implements), ``base`` and ``running`` (all that environments share), ``drill`` and ``coding`` (the built-in ones),
``grading``, ``faults``, ``forks``; then ``agents`` and ``runs`` (who plays, and the records), ``hint_trials`` (what
hints are worth), ``openenv`` (the wire).
"""

from __future__ import annotations

from ..registry import Registry

ENVIRONMENTS = Registry(
    "environment",
    "etude.environments",
    {
        "coding": ".environments.coding.session:CodingSession",
        "drill": ".environments.drill.session:DrillSession",
        "swe_bench": ".environments.swe_bench.session:SweBenchSession",
    },
)
