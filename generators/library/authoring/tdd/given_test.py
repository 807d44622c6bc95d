"""What the workspace shows of the next test: some cases or assertions are held back, so that none can be hard-coded."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....base import Files
from ....python.hidden_tests import hide, split_test_id
from ....python.source import Edit, apply_edits, items_without
from ....python.source_tree import SourceTree
from ...deletion.partial.rewriting.blocks import without_statements
from ...deletion.removal.source_file import DEFINITIONS, Function, SourceFile

LEAST_SHOWN = 2
"""Fewest assertions of one form that are shown where others of that form are held back."""


@dataclass(frozen=True)
class GivenTest:
    """The next test as the workspace has it."""

    files: Files  # test files of the workspace that differ from the Snapshot's
    text: str  # the source of the test, without indentation
    ids: Sequence[str]  # its shown cases
    held_cases: int = 0  # cases that only grading has
    held_assertions: int = 0  # assertions that only grading has


def given_test(
    tree: SourceTree, test: str, cases: Mapping[str, set[int]], hidden: Sequence[str], *, hold_out: bool
) -> GivenTest | None:
    """Return how the workspace shows the test function ``test``; None when it cannot be located.

    ``cases`` are the ids of its cases with the new lines that each runs, ``hidden`` the tests that the workspace lacks.
    """
    path, parts = split_test_id(test)
    files = hide(tree, hidden)
    source = files.get(path, tree.python_files.get(path))
    if source is None or not path.endswith(".py"):
        return None
    file = SourceFile(path, source, tree.dotted_name(path))
    node = _located(file, parts)
    if node is None:
        return None
    ids, edits, held_assertions = list(cases), list[Edit](), 0
    if hold_out and len(cases) > 1:
        dropped = _spare_cases(list(cases.values()))
        values = _parameter_sets(node, len(cases))
        if values and dropped:
            is_tuple = isinstance(file.parents[values[0]], ast.Tuple)
            edits = items_without(source, [file.span(item) for item in values], dropped, is_tuple=is_tuple)
            ids = [item for number, item in enumerate(cases) if number not in dropped]
    elif hold_out:
        spare = _spare_assertions(node)
        held_assertions, edits = len(spare), without_statements(file, spare)
    if edits:
        source = apply_edits(source, edits)
        files[path] = source
        shown = _located(SourceFile(path, source, file.dotted), parts)
        assert shown is not None, "only parts of the test were taken out"
        node = shown
    return GivenTest(files, _text(source, node), ids, len(cases) - len(ids), held_assertions)


def _located(file: SourceFile, parts: Sequence[str]) -> Function | None:
    body: Sequence[ast.stmt] = file.tree.body
    located: ast.stmt | None = None
    for part in parts:
        located = next((item for item in body if isinstance(item, DEFINITIONS) and item.name == part), None)
        if located is None:
            return None
        body = located.body
    return located if isinstance(located, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _spare_cases(cases: Sequence[set[int]]) -> set[int]:
    """Return the numbers of cases that run no line which the shown ones do not; at least half of them are shown."""
    covered: set[int] = set()
    shown: set[int] = set()
    for number, lines in enumerate(cases):
        if not lines <= covered:
            shown.add(number)
            covered |= lines
    for number in range(len(cases)):
        if len(shown) >= (len(cases) + 1) // 2:
            break
        shown.add(number)
    return set(range(len(cases))) - shown


def _parameter_sets(node: Function, count: int) -> list[ast.expr]:
    """Return the ``count`` parameter sets of a test with one list of them; empty for any other test."""
    marks = [
        item for item in node.decorator_list if isinstance(item, ast.Call) and "parametrize" in ast.dump(item.func)
    ]
    if len(marks) != 1 or len(marks[0].args) < 2 or any(item.arg == "ids" for item in marks[0].keywords):
        return []
    values = marks[0].args[1]
    is_plain = isinstance(values, ast.List | ast.Tuple) and len(marks[0].args) == 2 and len(values.elts) == count
    return values.elts if is_plain else []  # type: ignore[attr-defined]


def _spare_assertions(node: Function) -> list[ast.stmt]:
    """Return assertions at the end of a test that differ from shown ones in constants alone, at most a third of all.

    What is left of the test is its beginning, so a right solution passes it.
    """
    forms = [_form(item) for item in node.body if _asserts(item)]
    spare: list[ast.stmt] = []
    for item in reversed(node.body):
        shown = forms[: len(forms) - len(spare)]
        if not _asserts(item) or shown.count(shown[-1]) <= LEAST_SHOWN or 3 * (len(spare) + 1) > len(forms):
            break
        spare.append(item)
    return spare


def _asserts(node: ast.stmt) -> bool:
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return isinstance(node, ast.Assert) or (isinstance(called, ast.Attribute) and called.attr.startswith("assert"))


def _form(node: ast.stmt) -> str:
    """Return a statement as text in which only the types of constants count."""
    copied = ast.parse(ast.unparse(node))
    for item in ast.walk(copied):
        if isinstance(item, ast.Constant):
            item.value = type(item.value).__name__
    return ast.dump(copied)


def _text(source: bytes, node: Function) -> str:
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    lines = source.splitlines()[first - 1 : node.end_lineno]  # as Python counts them, unlike those of a str
    return textwrap.dedent(b"\n".join(lines).decode("utf-8", "replace"))
