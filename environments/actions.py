"""Actions of scripted agents: a call, a turn, and the Solution of a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Action = dict[str, Any]
"""One turn of an agent as it goes over the wire (see ``models.Action``)."""


@dataclass(frozen=True)
class Solution:
    """How a task is solved with the tools of its environment; ``BaseSession.solve`` returns one."""

    actions: list[Action] = field(default_factory=list)
    """The turns that solve the task, up to its submission."""
    submission: dict[str, Any] = field(default_factory=lambda: call("submit", summary="done"))
    """The call that ends the episode."""
    checks: list[Action] = field(default_factory=list)
    """Turns that look at the result before the submission, such as a run of the visible tests."""


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of ``tool``."""
    return {"name": tool, "arguments": arguments}


def turn(text: str, *calls: dict[str, Any]) -> Action:
    """Return a turn that says ``text`` and makes the calls."""
    return {"text": text, "tool_calls": list(calls)}
