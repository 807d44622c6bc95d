"""Outcomes of executed lines, and what of them a statement can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base import CallResult

Outcomes = Sequence[Mapping[str, Any]]
"""The outcome of each line of a session, as ``session_runner`` reports it; empty for one that is of no use."""


def result_of(outcome: Mapping[str, Any]) -> CallResult | None:
    """Return what a line gives; None when that cannot be printed."""
    if outcome["printed"] is None or (outcome["kind"] != "nothing" and not outcome["text"]):
        return None
    return CallResult(outcome["kind"], outcome["text"], outcome["printed"])
