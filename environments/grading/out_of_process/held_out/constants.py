"""Constants of the task's own solution: values near which partial solutions differ from it.

A constant is used only where an agent can know it: the workspace's version of a function, the statement or a test
names it. An honest solution cannot guess any other limit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .....models import Task
from ....tasks.task_paths import source_files
from ....tasks.task_trees import Materials
from ..targets import definitions, module_name

LONGEST = 16
"""Most characters of a text that is used."""
LARGEST = 10_000
"""Largest number that is used."""
_ALWAYS_KNOWN = frozenset({0, 1, 2})


@dataclass(frozen=True)
class Constants:
    """Numbers and texts of the functions that a task examines, each sorted."""

    numbers: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()


def known_constants(task: Task, trees: Materials, targets: Collection[str]) -> Constants:
    """Return the constants of the functions ``targets`` in the solution that an agent can know."""
    before: list[ast.AST] = []
    after: list[ast.AST] = []
    for path in sorted(source_files(task)):
        module = module_name(path, task.pytest.python_path) if path.endswith(".py") else ""
        names = {target.partition(":")[2] for target in targets if target.partition(":")[0] == module}
        for tree, nodes in ((trees.pristine_tree, before), (trees.solved_tree, after)) if names else ():
            functions = definitions(ast.parse((tree / path).read_bytes())) if (tree / path).is_file() else {}
            nodes += [functions[name] for name in sorted(names) if name in functions]
    tests = sorted({test.partition("::")[0] for test in task.FAIL_TO_PASS})
    files = (trees.grading_tree / path for path in tests)
    shown = [file.read_text(errors="replace") for file in files if file.suffix == ".py" and file.is_file()]
    return constants_of(after, "\n".join([task.problem_statement, *map(ast.unparse, before), *shown]))


def constants_of(functions: Iterable[ast.AST], visible: str) -> Constants:
    """Return the constants of some functions, without their docstrings, that a text shows."""
    values = {
        node.value
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and type(node.value) in (int, str)
    }
    shown = {int(number) for number in re.findall(r"(?<![\w.])\d{1,5}(?![\w.])", visible)} | _ALWAYS_KNOWN
    numbers = {value for value in values if isinstance(value, int) and value <= LARGEST and value in shown}
    texts = {value for value in values if isinstance(value, str) and 0 < len(value) <= LONGEST and value in visible}
    return Constants(tuple(sorted(numbers)), tuple(sorted(texts)))
