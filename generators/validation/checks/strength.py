"""How many small mistakes in the solution the hidden tests notice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ....environments.rng import stream
from ....environments.tasks.task_trees import Materials
from ....models import Task
from .attempts import attempts
from .mutants import Mutant, mutants
from .removed import Exercise

MUTANTS = 8


@dataclass(frozen=True)
class Strength:
    """``value`` is the share of mutants killed, ``None`` when the solution has nothing to mutate.

    ``idle`` mutants were never run: they do not parse, or compile to the solution itself. ``survivors`` say which
    mistakes pass the tests.
    """

    value: float | None
    tried: int
    idle: int
    survivors: list[str] = field(default_factory=list)


def sample(task: Task, exercise: Exercise, most: int) -> tuple[list[tuple[str, Mutant]], int]:
    """``most`` mutants drawn by the task's id, as many kinds of mistake as there are, and the number of idle ones."""
    found, idle = [], 0
    for path, lines in sorted(exercise.added.items()):
        if path.endswith(".py") and path in exercise.after:
            made, wasted = mutants(exercise.after[path], lines)
            found += [(path, mutant) for mutant in made]
            idle += wasted
    stream(task.generator.seed, "mutants", task.task_id).shuffle(found)
    turn: Counter[str] = Counter()
    ranked = []
    for number, (path, mutant) in enumerate(found):
        turn[mutant.operator] += 1
        ranked.append((turn[mutant.operator], number, path, mutant))
    return [(path, mutant) for _, _, path, mutant in sorted(ranked, key=lambda item: item[:2])[:most]], idle


async def strength(
    task: Task, made: Materials, exercise: Exercise, *, most: int = MUTANTS, backend: str = "auto"
) -> Strength:
    """Run each mutant on FAIL_TO_PASS alone, until its first failure; one sandbox, reset in between.

    A mutant that breaks the run, or takes far longer than the solution, counts as killed. Raises SandboxError.
    """
    chosen, idle = sample(task, exercise, most)
    if not chosen:
        return Strength(None, 0, idle)
    async with attempts(task, made, exercise.after, backend) as tried:
        survivors = [
            f"{path}:{mutant.line} {mutant.operator}"
            for path, mutant in chosen
            if await tried.passes({**exercise.after, path: mutant.source})
        ]
    return Strength(round(1 - len(survivors) / len(chosen), 3), len(chosen), idle, survivors)
