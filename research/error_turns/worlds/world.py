"""World: the tasks of one experiment through the real stack, how they are served, their bases, and what is counted.

``drill_world.DRILLS`` is the world of experiment B, ``repair_world.REPAIRS`` that of experiment C.
"""

from __future__ import annotations

import itertools
import json
import random
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
"""The calls of one turn, each with ``name`` and ``arguments``."""
PLAYED = 10**5
"""First seed of the tasks that pairs are made from; held-out tasks have smaller seeds."""
LEARNED, PRETRAINED = 10**6, 10**9
"""First seed of the tasks that a run learns from, and of those that bases are pretrained on."""


@dataclass(frozen=True)
class World:
    """One world. Its fields can be pickled, because runs in other processes need them."""

    served: Callable[[Path, Sequence[str]], AbstractContextManager[str]]
    """Yields the URL of a server of at least these tasks, which may leave files in the folder."""
    held_out: Callable[[str, int], list[str]]
    """Returns so many held-out task ids of a split."""
    learned: Callable[[int, int], list[str]]
    """Returns the ids of so many tasks of the split ``train`` that the run of a seed learns from."""
    played: Callable[[int], list[str]]
    """Returns the ids of so many tasks that pairs are made from."""
    knows: Callable[[], Knows]
    """Returns what the scripted teachers know."""
    right_hints: Callable[[Sequence[str]], dict[str, str]]
    """Returns the right hint for the first turn of each task, by the task's prompt."""
    sizes: Callable[[str], Sizes]
    """Returns the sizes of the base of this name."""
    dialogues: Callable[[Sizes], Iterable[Mapping[str, Any]]]
    """Returns the dialogues that a base of these sizes is pretrained on."""
    tries: Callable[[Rollout], bool]
    """Returns whether a rollout's first turn does what can err; a first turn that avoids it counts as an error."""
    works: Callable[[str, Calls], bool]
    """Returns whether these calls would not err as the first turn of a task."""
    retold: Callable[[ErrorTurn, Mapping[str, Any]], str | None]
    """Returns the environment's hint for an error, with another call in place of the advised one; None where that
    call, or the error, is of another kind."""
    prompts: int
    """Tasks of one update."""
    held: int
    """Held-out tasks of each split in one evaluation."""
    parts: int
    """Parts of a run; each ends with an evaluation."""
    max_ids: int
    """Length limit of an episode in ids."""
    updates: int = 40
    """Updates of a run."""
    group: int = 8
    """Episodes of each task in one update."""
    max_turn_ids: int = 48
    """Length limit of a turn in ids."""
    temperature: float = 1.0
    """Sampling temperature of training and of evaluations."""
    starts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Bases that are another base, trained further: the other one's name, by name."""
    task_specific: frozenset[str] = frozenset()
    """Kinds of error turns whose hints are right for their own task only; empty for all kinds."""
    errs: float = 0.5
    """Least share of first turns in which a base errs without a hint."""
    hinted: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {"strong": (0.0, 0.15), "weak": (0.1, 0.45)}, hash=False
    )
    """By base, the least and the largest share of first turns in which it errs with the right hint."""

    @property
    def episodes(self) -> int:
        """Return the number of episodes of one update."""
        return self.prompts * self.group

    def tested(self) -> list[str]:
        """Return the task ids of an evaluation: ``held`` of the split ``train``, then as many of ``eval``."""
        return [name for split in ("train", "eval") for name in self.held_out(split, self.held)]

    def needed(self, seeds: Iterable[int], updates: int) -> list[str]:
        """Return the task ids of the runs of these seeds: held-out ones, those of a base's run, and those to learn."""
        learned = [name for seed in seeds for name in self.learned(seed, self.prompts * updates)]
        return [*self.tested(), *self.learned(0, self.prompts), *learned]


def split_seeds(first: int, split: str, number: int) -> list[int]:
    """Return the first ``number`` seeds of a split from ``first`` on; a tenth of all seeds belongs to ``eval``."""
    seeds = (seed for seed in itertools.count(first) if (seed % 10 == 9) == (split == "eval"))
    return list(itertools.islice(seeds, number))


def learned_seeds(tasks: str, seed: int, number: int) -> list[int]:
    """Return the seeds of the tasks that the run of a seed learns from; ``tasks`` names the kind of tasks."""
    rng = random.Random(f"{tasks} {seed}")
    return [rng.randrange(LEARNED, PRETRAINED, 10) + rng.randrange(9) for _ in range(number)]


def first_calls(rollout: Rollout) -> Calls:
    """Return the calls of a rollout's first turn."""
    return next(iter(calls_of(rollout)), [])


def calls_of(rollout: Rollout) -> list[Calls]:
    """Return the calls of each turn; a name that is not a text becomes ''."""
    turns = [message.get("tool_calls") or [] for message in rollout.messages if message["role"] == "assistant"]
    return [[{**call, "name": _text(call.get("name"))} for call in calls] for calls in turns]


def _text(name: Any) -> str:
    return name if isinstance(name, str) else ""


def due(knows: Knows, rollout: Rollout, turn: int) -> Call:
    """Return the right call in the state before a turn."""
    return knows.right(rollout.task_id, turns_before(rollout, turn))


def turns_before(rollout: Rollout, turn: int) -> list[dict[str, Any]]:
    """Return the turns before turn ``turn`` as messages of a chat completion's request."""
    return [
        {"tool_calls": [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]}
        for calls in calls_of(rollout)[:turn]
    ]
