"""How many small mistakes in the solution the hidden tests notice."""

from __future__ import annotations

from dataclasses import dataclass, field

from .....environments.rng import stream
from .....environments.tasks.task_trees import Materials
from .....models import Task
from ....engine.warm_batch import WarmBatch
from ....python.mutants import Mutant, chosen_mutants, possible_mutants
from ..exercise import Exercise
from .attempts import passing_attempts

MUTANTS = 8


@dataclass(frozen=True)
class Strength:
    """How well the hidden tests notice mistakes."""

    value: float | None  # share of the mutants that fail the tests; None when the solution has nothing to mutate
    tried: int  # mutants that were run
    survivors: list[str] = field(default_factory=list)  # file, line and kind of the mistakes that pass the tests


def sample(task: Task, exercise: Exercise, most: int) -> list[tuple[str, Mutant]]:
    """Return up to ``most`` mutants with their files, chosen by the task's id, taking each kind of mistake in turn."""
    sources = {path: lines for path, lines in sorted(exercise.added.items()) if path.endswith(".py")}
    pool = [
        (path, mutant)
        for path, lines in sources.items()
        if path in exercise.after
        for mutant in possible_mutants(exercise.after[path], lines)
    ]
    stream(task.generator.seed, "mutants", task.task_id).shuffle(pool)
    return chosen_mutants(pool, most)


async def strength(
    task: Task,
    trees: Materials,
    exercise: Exercise,
    *,
    most: int = MUTANTS,
    every_test: bool = False,
    backend: str = "auto",
    warm: WarmBatch | None = None,
) -> Strength:
    """Run each mutant on FAIL_TO_PASS until its first failure, together in a warm run where that is possible.

    With ``every_test`` it is run on PASS_TO_PASS too: those tests decide where a solution keeps all behaviour. A mutant
    that ends the run, or takes far longer than the solution, counts as noticed. Raises SandboxError.
    """
    chosen = sample(task, exercise, most)
    if not chosen:
        return Strength(None, 0)
    if every_test:
        task = task.model_copy(update={"FAIL_TO_PASS": [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]})
    wrong = [{**exercise.after, path: mutant.source} for path, mutant in chosen]
    passes = await passing_attempts(task, trees, exercise.after, wrong, backend, warm)
    survivors = [
        f"{path}:{mutant.line} {mutant.operator}"
        for (path, mutant), passed in zip(chosen, passes, strict=True)
        if passed
    ]
    return Strength(round(1 - len(survivors) / len(chosen), 3), len(chosen), survivors)
