"""Table ``[effort]`` of a recipe: the penalty for the effort of an episode (``trainers/grpo/effort.py``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from .typed_toml import Table


class Effort(Table):
    """Penalty for effort in the reward of RLVR. Its unit is the weighted count of the last six keys."""

    weight: float = Field(default=0.0, ge=0)
    """Reward that one unit of effort costs at the start of an episode; 0 for no penalty."""
    k: float = Field(default=1e-4, gt=0)
    """Curvature: after 1 / k units, one more unit costs 2 ** -q of the first one."""
    q: float = Field(default=1.0, ge=0)
    """Shape: 0 is linear, 1 a logarithm; above 1 the penalty has an upper bound."""
    thinking_tokens: float = Field(default=1.0, ge=0)
    """Effort of one sampled token of a thought."""
    call_tokens: float = Field(default=1.0, ge=0)
    """Effort of one sampled token of a tool call."""
    output_tokens: float = Field(default=0.0, ge=0)
    """Effort of one token that the environment wrote between two turns."""
    message_tokens: float = Field(default=1.0, ge=0)
    """Effort of one other sampled token."""
    calls: float = Field(default=0.0, ge=0)
    """Effort of one tool call."""
    turns: float = Field(default=0.0, ge=0)
    """Effort of one turn."""

    def weights(self) -> dict[str, float]:
        """Return the effort of one of each count."""
        return {name: getattr(self, name) for name in COUNTS}


COUNTS = ("thinking_tokens", "call_tokens", "output_tokens", "message_tokens", "calls", "turns")
"""Keys that hold the effort of one of a count."""


def effort_problems(effort: Effort, rlvr_used: bool) -> Iterator[str]:
    """Yield one line for each rule that the table breaks; ``rlvr_used``: whether RLVR ever has a weight."""
    if effort.weight and not rlvr_used:
        yield "effort.weight is a part of RLVR's reward, but channels.rlvr is 0; remove effort.weight"
    if effort.weight and not any(effort.weights().values()):
        yield f"effort.weight is set, but nothing counts as effort; give one of {', '.join(COUNTS)} a value"


def unread_effort(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for options of a penalty that is off. Values that are the default may stand."""
    if table and not table.get("weight"):
        default = Effort()
        names = [f"effort.{name}" for name, value in table.items() if value != getattr(default, name, value)]
        if names:
            yield f"effort.weight is 0, so {', '.join(names)} would not be read; give effort.weight a value"
