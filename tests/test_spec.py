"""SPEC.md: every promise has a number and names tests or checks that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from etude.environments.sandbox.conformance.escapes.run import ESCAPES
from etude.environments.sandbox.conformance.suite import CHECKS

_ROOT = Path(__file__).resolve().parent.parent
_TIME = re.compile(r"\d\s*(ms|s|seconds?|minutes?|hours?)\b")


class Line(NamedTuple):
    """One line of a table."""

    name: str
    promise: str
    guards: list[str]


def lines() -> list[Line]:
    """Return the promises, in order."""
    rows = [row.strip("|").split("|") for row in (_ROOT / "SPEC.md").read_text().splitlines() if row.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [Line(row[0], row[1], re.findall("`([^`]+)`", row[2])) for row in cells if re.fullmatch(r"[A-Z]\d+", row[0])]


LINES = lines()


def functions(path: Path) -> dict[str, list[str]]:
    """Return the decorators of every function at the top of a module."""
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name: [ast.unparse(mark) for mark in node.decorator_list] for node in tree.body if isinstance(node, kinds)
    }


def test_there_are_promises_about_each_part() -> None:
    assert {line.name[0] for line in LINES} == {"S", "G", "W", "D"}
    assert len(LINES) >= 32


def test_the_names_of_the_lines_count_up_without_a_gap() -> None:
    for letter in {line.name[0] for line in LINES}:
        numbers = [int(line.name[1:]) for line in LINES if line.name.startswith(letter)]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("line", LINES, ids=[line.name for line in LINES])
def test_a_promise_has_a_number_that_is_not_a_time(line: Line) -> None:
    assert re.search(r"\d", line.promise)
    assert not _TIME.search(line.promise)


@pytest.mark.parametrize("line", LINES, ids=[line.name for line in LINES])
def test_what_a_promise_names_exists(line: Line) -> None:
    assert line.guards
    for guard in line.guards:
        path, separator, name = guard.partition("::")
        if not separator:
            assert guard in {*CHECKS, *ESCAPES}
            continue
        assert path.startswith(("tests/", "benchmarks/"))
        marks = functions(_ROOT / path)[name]
        assert not [mark for mark in marks if "skip(" in mark or "xfail" in mark]
