"""Schedule of a feature: its tests in an order in which each needs as little new code as possible.

The tests are test functions; what each needs is the set of the feature's lines that it runs. The next one is the one
that adds the fewest lines to those before it, so simple cases come first, as in a schedule that was written by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ....python.tested_code import TestedCode
from ...deletion.removal.name_index import NameIndex
from ...deletion.removal.source_file import DEFINITIONS, FUNCTIONS, SourceFile


@dataclass(frozen=True)
class Feature:
    """A public function or class of a module, with the private helpers that it uses."""

    file: SourceFile  # the module
    node: ast.stmt  # the function or class
    helpers: tuple[ast.stmt, ...]  # private functions and classes of the module that only it needs

    @property
    def name(self) -> str:
        """Return the name of the function or class."""
        return str(getattr(self.node, "name", ""))

    @property
    def kind(self) -> Literal["function", "class"]:
        """Return what the feature is."""
        return "class" if isinstance(self.node, ast.ClassDef) else "function"

    @property
    def definitions(self) -> list[ast.stmt]:
        """Return everything that is part of the feature."""
        return [self.node, *self.helpers]

    def names_of(self, lines: set[int]) -> set[str]:
        """Return the names by which a test can reach these lines: of the feature, and of its methods there."""
        members = self.node.body if isinstance(self.node, ast.ClassDef) else []
        reached = {
            item.name
            for item in members
            if isinstance(item, FUNCTIONS) and not lines.isdisjoint(range(item.lineno, (item.end_lineno or 0) + 1))
        }
        return {self.name, *reached}


@dataclass(frozen=True)
class Step:
    """One step: tests that run code which no test before them runs."""

    number: int  # how many steps come before it
    total: int  # how many steps the schedule has
    nexts: Sequence[str]  # test functions that run all of the new lines, in suite order
    others: Sequence[str]  # test functions that run a part of them, and nothing that later steps add
    later: Sequence[str]  # test functions of later steps
    retained: set[int]  # lines that tests of earlier steps run
    new: set[int]  # lines that this step adds
    postponed: set[int]  # lines that only later steps add


def features(code: TestedCode, file: SourceFile) -> Iterator[Feature]:
    """Yield the public functions and classes of a module, in its order; none of their code runs at import."""
    top = {item.name: item for item in file.tree.body if isinstance(item, DEFINITIONS)}
    for name, node in top.items():
        if name.startswith("_") or _runs_at_import(code, file, name):
            continue
        helpers: dict[str, ast.stmt] = {}
        waiting: list[ast.stmt] = [node]
        while waiting:
            for word in _names(waiting.pop()):
                if word.startswith("_") and word in top and word not in helpers and word != name:
                    if _runs_at_import(code, file, word) or _is_used_outside(file, word, [node, *helpers.values()]):
                        continue
                    helpers[word] = top[word]
                    waiting.append(top[word])
        yield Feature(file, node, tuple(helpers.values()))


def needed_at_import(index: NameIndex) -> set[str]:
    """Return the attributes that code at module level names, such as ``make`` in ``parse = Parser.make``."""
    return {
        item.attr
        for path in index.own
        for statement in index.files[path].tree.body
        if not isinstance(statement, DEFINITIONS)
        for item in ast.walk(statement)
        if isinstance(item, ast.Attribute)
    }


def _runs_at_import(code: TestedCode, file: SourceFile, name: str) -> bool:
    key = f"{file.path}::{name}"
    return code.runs_at_import(file.path, lambda item: item == key or item.startswith(f"{key}."))


def _names(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _is_used_outside(file: SourceFile, name: str, users: Sequence[ast.stmt]) -> bool:
    """Return whether other code of the module names a helper."""
    return any(
        name in _names(item) for item in file.tree.body if item not in users and getattr(item, "name", "") != name
    )


def lines_by_test(code: TestedCode, feature: Feature) -> dict[str, set[int]]:
    """Return the lines of a feature that each test function runs, in suite order."""
    feature_lines = {line for item in feature.definitions for line in range(item.lineno, (item.end_lineno or 0) + 1)}
    result: dict[str, set[int]] = {}
    tests_of = code.tests_of_lines(feature.file.path)
    for line in sorted(feature_lines & tests_of.keys()):
        for test in tests_of[line]:
            result.setdefault(test.partition("[")[0], set()).add(line)
    order = dict.fromkeys(test.partition("[")[0] for test in code.baseline.passed)
    return {test: result[test] for test in order if test in result}


def steps(lines_of: dict[str, set[int]]) -> list[Step]:
    """Return the steps of the schedule of these tests, in its order."""
    groups: dict[frozenset[int], list[str]] = {}
    for test, lines in lines_of.items():
        groups.setdefault(frozenset(lines), []).append(test)
    covered: set[int] = set()
    ordered: list[tuple[set[int], list[str], list[str]]] = []  # lines before, tests that run all new ones, others
    while groups:
        chosen = min(groups, key=lambda lines: len(lines - covered))  # the first in suite order
        nexts, before = groups.pop(chosen), set(covered)
        covered |= chosen
        absorbed = [lines for lines in groups if lines <= covered]
        others = [test for lines in absorbed for test in groups.pop(lines)]
        ordered.append((before, nexts, others))
    result = []
    for number, (before, nexts, others) in enumerate(ordered):
        after = ordered[number + 1][0] if number + 1 < len(ordered) else covered
        later = [test for _, first, more in ordered[number + 1 :] for test in (*first, *more)]
        result.append(Step(number, len(ordered), nexts, others, later, before, after - before, covered - after))
    return result
