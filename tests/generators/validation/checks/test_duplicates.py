"""Which tasks are the same exercise: by the shape of their code, and by their tests and lines."""

from __future__ import annotations

import ast
from dataclasses import replace

from etude.generators.validation.checks.duplicates import Print, duplicates, same, shape
from etude.generators.validation.checks.removed import Piece

ONE = '''
def mean(values, default=0):
    """The mean."""
    total = 0
    for value in values:
        total += value
    return total / len(values) if values else default
'''
RENAMED = """
def average(numbers: list[int], fallback: int = 0) -> float:
    result = 0
    for n in numbers:
        result += n   # adds

    return (result / len(numbers)) if numbers else fallback
"""


def piece(source: str) -> Piece:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return Piece("m.py", node.name, node, source.encode(), range(1, 2))


def lines(*numbers: int) -> frozenset[tuple[str, int]]:
    return frozenset(("m.py", number) for number in numbers)


BASE = Print("a", "pkg 1", ("stub", "hidden"), "", frozenset("tuvwxyz0123"), lines(1, 2, 3, 4))


def test_names_docstrings_annotations_and_layout_do_not_make_another_shape():
    assert shape([piece(ONE)]) == shape([piece(RENAMED)]) != ""


def test_another_computation_is_another_shape():
    assert shape([piece(ONE)]) != shape([piece(ONE.replace("total /", "total //"))])


def test_a_name_from_elsewhere_counts():
    assert shape([piece(ONE.replace("len(values)", "size(values)"))]) != shape([piece(ONE)])


def test_small_code_has_no_shape():
    assert shape([piece("def f(x): return x")]) == ""


def test_a_vendored_copy_is_a_duplicate_across_packages():
    one = replace(BASE, shape="s")
    other = replace(BASE, task_id="b", package="other 2", shape="s", tests=frozenset("q"), lines=lines(90))
    assert duplicates([one, other]) == {"b": "a"}


def test_stub_and_remove_of_one_function_are_two_exercises():
    one = replace(BASE, shape="s")
    assert not same(one, replace(one, task_id="b", variant=("remove", "hidden")))


def test_two_functions_under_the_same_tests_are_two_exercises():
    assert not same(BASE, replace(BASE, task_id="b", lines=lines(20, 21, 22)))


def test_a_class_that_is_little_more_than_one_method_is_that_method():
    assert same(BASE, replace(BASE, task_id="b", lines=lines(1, 2, 3, 4, 5)))
    assert not same(BASE, replace(BASE, task_id="b", lines=lines(*range(1, 40))))


def test_the_same_lines_under_other_tests_are_two_exercises():
    assert not same(BASE, replace(BASE, task_id="b", tests=frozenset("tuv")))


def test_the_first_stays_whatever_its_name():
    assert duplicates([replace(BASE, task_id="z"), replace(BASE, task_id="a"), replace(BASE, task_id="b")]) == {
        "a": "z",
        "b": "z",
    }
