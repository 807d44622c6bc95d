"""Small mistakes: each changes what the code does, and nothing else of the file."""

from __future__ import annotations

import ast

import pytest

from etude.generators.validation.checks.mutants import mutants


def bodies(source: str) -> set[str]:
    """The mutated second line of a two-line function."""
    found, _ = mutants(source.encode(), {2})
    return {mutant.source.decode().split("\n")[1].strip() for mutant in found}


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
        ("return not a", "return (a)"),
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
def test_an_operator_makes_this_mistake(line: str, expected: str):
    assert expected in bodies(f"def f(a, b, c):\n    {line}\n")


def test_only_the_lines_asked_for_change():
    source = b"def f(a):\n    x = a + 1\n    return x * 2\n"
    found, _ = mutants(source, {3})
    assert found and all(mutant.source.startswith(b"def f(a):\n    x = a + 1\n") for mutant in found)
    assert {mutant.line for mutant in found} == {3}


def test_what_compiles_to_the_same_is_not_run():
    found, idle = mutants(b"def f(a):\n    pass\n    return None\n", {2, 3})
    assert (found, idle) == ([], 0)
    found, idle = mutants(b"def f(a):\n    a.b()\n    if 1: a.b()\n", {3})
    assert idle >= 0 and all(ast.parse(mutant.source) for mutant in found)


def test_annotations_docstrings_and_names_stay():
    source = b'def f(a: list[1]) -> dict[2, 3]:\n    """A == B."""\n    x = a\n'
    assert mutants(source, {1, 2, 3})[0] == []


def test_the_same_mutants_every_time():
    source = b"def f(a, b):\n    if a < b and b != 3:\n        return a - 1\n    return f(b, a)\n"
    first, second = mutants(source, {2, 3, 4}), mutants(source, {2, 3, 4})
    assert first == second and len({mutant.source for mutant in first[0]}) == len(first[0]) > 6
