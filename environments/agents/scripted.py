"""Scripted agents: a list of actions made from the task, played whatever comes back.

They see the secret parts of a task, so they run where the tasks are; the episode may be anywhere, in this process or
behind a socket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import UnknownName
from ...models import Task
from ...registry import did_you_mean
from .. import ENVIRONMENTS
from ..actions import Action, Solution, call, turn
from . import Agent
from .exploits import CHEATS

SUBMIT = turn("done", call("submit", summary="done"))
"""A turn that submits the workspace as it is."""


class Script:
    """Agent that plays fixed actions in order."""

    def __init__(self, actions: list[Action]) -> None:
        self._actions = iter(actions)

    def act(self, observation: Mapping[str, Any]) -> Action | None:
        """Return the next action, None when there is none left or the episode is over."""
        return None if observation.get("done") else next(self._actions, None)


def solution(task: Task) -> Solution:
    """Return how the task's environment solves it. Raises UnknownName for an environment that is not registered."""
    solved: Solution = ENVIRONMENTS.load(task.environment).solve(task)
    return solved


def oracle(task: Task) -> Agent:
    """Play the task's own solution and submit it; scores 1 on every valid task."""
    solved = solution(task)
    return Script([*solved.actions, *solved.checks, turn("done", solved.submission)])


def noop(task: Task) -> Agent:
    """Submit the task as it is; scores 0 on every valid task."""
    return Script([SUBMIT])


def cheater(task: Task, variant: str = "") -> Agent:
    """Try to pass without solving: every exploit in one episode, or the one that ``cheater:NAME`` names; scores 0.

    Raises UnknownName for an unknown exploit.
    """
    if variant and variant not in CHEATS:
        raise UnknownName(did_you_mean("exploit", variant, CHEATS))
    chosen = [CHEATS[variant]] if variant else list(CHEATS.values())
    return Script([*(turn("", call("bash", command=cheat(task))) for cheat in chosen), SUBMIT])
