"""Wrong versions of a task's solution, on which its record of calls is tried: the record has to notice most of them.

They are the small mistakes of ``python/mutants.py`` and partial solutions, which leave out a branch, a condition or a
step (``partial_versions``) or are wrong in a detail (``near_misses``).
"""

from __future__ import annotations

import ast
import base64
import random
from collections.abc import Iterator, Sequence

from .....environments.grading.out_of_process.judging.examination import Examination
from .....environments.grading.out_of_process.strength.guesses import negated
from .....environments.grading.out_of_process.targets import definitions, module_name
from .....environments.grading.own_solution import own_solution
from .....environments.rng import stream
from .....environments.tasks.task_trees import Materials
from .....models import FileChange, Task
from ....python.mutants import Mutant, each_kind_in_turn, mutants
from ....python.source import SyntaxSpans
from .attempts import open_attempts
from .near_misses import near_misses
from .partial_versions import partial_versions

MOST = 48
"""Most mutants of the examined functions on which a task's record is tried."""
MOST_CALLED = 12
"""Most mutants of functions that the examined functions call."""


def solution_mutants(
    examination: Examination, solution: Sequence[FileChange]
) -> tuple[list[list[FileChange]], list[list[FileChange]]]:
    """Return up to MOST mutants of the examined functions, and up to MOST_CALLED of the functions that these call.

    ``solution`` is the task's own solution. The task's id seeds the draw, which takes each kind of mistake in turn. The
    first list starts with guesses: solutions that return the opposite of what the workspace's version returns. The
    second list stands for partial solutions: to leave out the call of a function has the effect of a mutant of it.
    """
    task, targets = examination.task, examination.examined.targets
    examined: list[tuple[FileChange, Mutant]] = []
    others: list[tuple[FileChange, Mutant]] = []
    for change in solution:
        module = module_name(change.path, task.pytest.python_path) if change.content else ""
        names = [target.partition(":")[2] for target in targets if target.partition(":")[0] == module]
        if module and names:
            source = base64.b64decode(change.content or "")
            examined += [(change, mutant) for mutant in _mutants_of(source, names)]
            called = _called(source, names)
            further_names = [*called, *_called(source, [*names, *called])]
            others += [(change, mutant) for mutant in _mutants_of(source, further_names)]
    draw = stream(task.generator.seed, "record mutants", task.task_id)
    chosen_own, chosen_others = _drawn(examined, MOST, draw), _drawn(others, MOST_CALLED, draw)
    ordinary = [_replaced(solution, change, mutant.source) for change, mutant in chosen_own]
    further = [_replaced(solution, change, mutant.source) for change, mutant in chosen_others]
    return [*_opposites(examination, solution), *ordinary], further


def _drawn(pool: list[tuple[FileChange, Mutant]], most: int, draw: random.Random) -> list[tuple[FileChange, Mutant]]:
    """Return up to ``most`` of the mutants in an order that is drawn, each kind in turn."""
    draw.shuffle(pool)
    return each_kind_in_turn(pool, most)


def _called(source: bytes, names: Sequence[str]) -> list[str]:
    """Return the other functions of a module whose names some functions use."""
    functions = definitions(ast.parse(source))
    nodes = [node for name in names if name in functions for node in ast.walk(functions[name])]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return [name for name in functions if name not in names and name.rpartition(".")[2] in used]


def _opposites(examination: Examination, solution: Sequence[FileChange]) -> Iterator[list[FileChange]]:
    """Yield the solution with the opposite of the workspace's answers, where a single function is examined."""
    targets = examination.examined.targets
    for change in solution if len(targets) == 1 else ():
        module, _, name = targets[0].partition(":")
        file = examination.trees.pristine_tree / change.path
        if module_name(change.path, examination.task.pytest.python_path) == module and file.is_file():
            content = negated(file.read_bytes(), name)
            if content:
                yield _replaced(solution, change, content)


async def noticed(task: Task, trees: Materials, mutants: Sequence[Sequence[FileChange]], backend: str) -> int:
    """Return how many mutants fail at least one test of the task. Raises SandboxError."""
    if not mutants:
        return 0
    every_test = task.model_copy(update={"FAIL_TO_PASS": [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]})
    solution = _contents(own_solution(task, trees))
    async with open_attempts(every_test, trees, solution, backend) as attempts:
        return sum([not await attempts.passes(_contents(changes)) for changes in mutants])


def _contents(changes: Sequence[FileChange]) -> dict[str, bytes | None]:
    return {item.path: None if item.content is None else base64.b64decode(item.content) for item in changes}


def _replaced(solution: Sequence[FileChange], change: FileChange, source: bytes) -> list[FileChange]:
    """Return the solution with another text in one of its files."""
    content = base64.b64encode(source).decode()
    return [item.model_copy(update={"content": content}) if item is change else item for item in solution]


def _mutants_of(source: bytes, names: Sequence[str]) -> list[Mutant]:
    """Return the mutants of some functions of a module, each text once."""
    functions = definitions(ast.parse(source))
    nodes = [functions[name] for name in names if name in functions]
    lines = {line for node in nodes for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)}
    spans = SyntaxSpans(source)
    partial = [mutant for node in nodes for mutant in [*partial_versions(spans, node), *near_misses(spans, node)]]
    by_source = {mutant.source: mutant for mutant in [*mutants(source, lines), *partial] if mutant.changes_code()}
    return sorted(by_source.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.operator, mutant.text))
