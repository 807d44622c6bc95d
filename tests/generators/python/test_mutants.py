"""Mutants: each changes what the code does, and nothing else in the file."""

from __future__ import annotations

import ast

import pytest

from etude.generators.python.mutants import Mutant, mutants


def bodies(source: str) -> set[str]:
    """Return every mutated second line of a two-line function."""
    mutated = mutants(source.encode(), {2})
    return {mutant.source.decode().split("\n")[1].strip() for mutant in mutated}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a == b", "return a != b"),
        ("return a < b", "return a <= b"),
        ("return a in b", "return a not in b"),
        ("return a not in b", "return a in b"),
        ("return a is not b", "return a is b"),
        ("return (a) < (b) < c", "return (a) < (b) <= c"),
        ("return a + b", "return a - b"),
        ("return a // b", "return a * b"),
        ("a += b", "a -= b"),
        ("a += b", "pass"),
        ("return a and b", "return a or b"),
        ("return not a", "return a"),
        ("return not a.b(c)", "return a.b(c)"),
        ("return not (a or b)", "return (a or b)"),
        ("return not a == b", "return (a == b)"),
        ("return a[1:]", "return a[2:]"),
        ("return True", "return False"),
        ("return a", "return None"),
        ("a.append(b)", "pass"),
        ("return pow(a, b)", "return pow(b, a)"),
        ("raise KeyError(a)", "raise Exception(a)"),
        ("raise KeyError(a)", "pass"),
        ("return a if b else c", "return a if (not (b)) else c"),
        ("return 'é' + a", "return 'é' - a"),
    ],
)
def test_an_operator_produces_the_mistake(line: str, expected: str):
    assert expected in bodies(f"def f(a, b, c):\n    {line}\n")


@pytest.mark.filterwarnings("error")
def test_a_mistake_that_python_warns_of_prints_no_warning():
    original = b"def f(a):\n    return g(a)\n"
    start = original.index(b"g(a)")
    assert Mutant(original, "call", start, start + 1, b"(1)").changes_code()


def test_only_the_requested_lines_change():
    source = b"def f(a):\n    x = a + 1\n    return x * 2\n"
    mutated = mutants(source, {3})
    assert mutated and all(mutant.source.startswith(b"def f(a):\n    x = a + 1\n") for mutant in mutated)
    assert {mutant.line for mutant in mutated} == {3}


def test_a_mutation_is_left_out_when_it_compiles_to_the_same_code():
    assert mutants(b"def f(a):\n    pass\n    return None\n", {2, 3}) == []
    mutated = mutants(b"def f(a):\n    a.b()\n    if 1: a.b()\n", {3})
    assert mutated and all(ast.parse(mutant.source) for mutant in mutated)


def test_annotations_docstrings_and_names_are_not_mutated():
    source = b'def f(a: list[1]) -> dict[2, 3]:\n    """A == B."""\n    x = a\n'
    assert mutants(source, {1, 2, 3}) == []


def test_the_mutants_are_the_same_every_time():
    source = b"def f(a, b):\n    if a < b and b != 3:\n        return a - 1\n    return f(b, a)\n"
    first, second = mutants(source, {2, 3, 4}), mutants(source, {2, 3, 4})
    assert first == second and len({mutant.source for mutant in first}) == len(first) > 6
