"""What experiments through the real stack differ in: their tasks, how these are served, the bases, and what is counted.

``drill_world.DRILLS`` is (B)'s, ``repair_world.REPAIRS`` is (C)'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etude.models import ErrorTurn
from etude.research.error_turns.real_stack.scripted_teachers import Call, Knows
from etude.trainers.recipe.recipe import Sizes
from etude.trainers.rollouts.rollout import Rollout

Calls = Sequence[Mapping[str, Any]]
"""Of one turn: each with ``name`` and ``arguments``."""
Retold = Callable[[ErrorTurn, Mapping[str, Any]], str | None]


@dataclass(frozen=True)
class World:
    """Made of what can be sent to another process, so that runs there know it.

    ``served``: the url of a server of at least these tasks, which may leave files in a folder. ``held_out``: so many
    task ids of a split. ``learned``: so many that the run of a seed learns from, of the split ``train``. ``played``: so
    many that pairs are made from. ``knows``: what their teachers know. ``right_hints``: by a task's prompt.

    ``sizes`` and ``dialogues``: of a base, by its name. ``errs``: at least, how often a base errs in its first turn
    without a hint; ``hinted``: from which to which share it does with the right one.

    ``tries``: whether the first turn of a rollout does what can err, so that it is no way out not to. ``works``:
    whether these calls would not err as a first turn of the task. ``telling``: kinds of ErrorTurns whose hints are of
    their task alone, and wrong for others (none given: all). ``retold``: what the environment says of an error, with
    this other call in the place of its advice; None when that call is none, or the error of another kind.
    """

    served: Callable[[Path, Sequence[str]], AbstractContextManager[str]]
    held_out: Callable[[str, int], list[str]]
    learned: Callable[[int, int], list[str]]
    played: Callable[[int], list[str]]
    knows: Callable[[], Knows]
    right_hints: Callable[[Sequence[str]], dict[str, str]]
    sizes: Callable[[str], Sizes]
    dialogues: Callable[[Sizes], Iterable[Mapping[str, Any]]]
    errs: float
    hinted: Mapping[str, tuple[float, float]] = field(hash=False)
    tries: Callable[[Rollout], bool]
    works: Callable[[str, Calls], bool]
    retold: Retold
    prompts: int
    group: int
    held: int
    parts: int
    max_ids: int
    max_turn_ids: int
    updates: int = 40
    telling: frozenset[str] = frozenset()

    @property
    def episodes(self) -> int:
        """Of one update."""
        return self.prompts * self.group

    def tested(self) -> list[str]:
        """Return what every evaluation plays: ``held`` tasks of the split ``train``, then as many of ``eval``."""
        return [name for split in ("train", "eval") for name in self.held_out(split, self.held)]


def first_calls(rollout: Rollout) -> Calls:
    """Of its first turn."""
    return next(iter(calls_of(rollout)), [])


def calls_of(rollout: Rollout) -> list[Calls]:
    """Of each turn; a call whose name is no text has none."""
    said = [turn.get("tool_calls") or [] for turn in rollout.messages if turn["role"] == "assistant"]
    return [[{**call, "name": _text(call.get("name"))} for call in calls] for calls in said]


def _text(name: Any) -> str:
    return name if isinstance(name, str) else ""


def due(knows: Knows, rollout: Rollout, turn: int) -> Call:
    """Return the call that leads on from before this turn."""
    made = [
        {"tool_calls": [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]}
        for calls in calls_of(rollout)[:turn]
    ]
    return knows.right(rollout.task_id, made)
