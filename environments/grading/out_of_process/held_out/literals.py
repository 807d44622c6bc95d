"""Texts in the tests and docstrings of a task, which show what an argument may look like."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from .....models import Task
from ....tasks.task_paths import source_files
from ....tasks.task_trees import Materials

LONGEST = 60
"""Most characters of a text that is used."""
MOST = 400
"""Most texts."""
_QUOTED = re.compile(r"""(["'])((?:(?!\1).)+)\1""")


def literals(task: Task, trees: Materials) -> list[str]:
    """Return the texts in a task's tests and the quoted texts in docstrings of its source files, sorted."""
    tests = {test.partition("::")[0] for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]}
    paths = [(trees.grading_tree / path, True) for path in sorted(tests)]
    paths += [(trees.solved_tree / path, False) for path in sorted(source_files(task))]
    texts: set[str] = set()
    for file, is_test in paths:
        if file.suffix == ".py" and file.is_file():
            try:
                tree = ast.parse(file.read_bytes())
            except (SyntaxError, ValueError):
                continue
            texts.update(text for text in _texts(tree, is_test) if 1 < len(text) <= LONGEST and text.isprintable())
    return sorted(texts)[:: max(1, len(texts) // MOST)]


def _texts(tree: ast.Module, is_test: bool) -> Iterator[str]:
    for node in ast.walk(tree):
        if is_test and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (match[1] for match in _QUOTED.findall(ast.get_docstring(node) or ""))


def alike(text: str, texts: Sequence[str]) -> list[str]:
    """Return the texts with at least half of the kinds of characters of ``text``: digits, letters, single marks."""
    kinds = character_kinds(text)
    return [other for other in texts if 2 * len(kinds & character_kinds(other)) >= max(len(kinds), 1)]


def character_kinds(text: str) -> set[str]:
    """Return digit and letter as ``0`` and ``a``, and each other character of a text."""
    return {"0" if item.isdigit() else "a" if item.isalpha() else item for item in text}
