"""Tasks are the same exercise by the shape of their code, or by their tests and lines."""

from __future__ import annotations

import ast
import time
from dataclasses import replace

from etude.environments.snapshots import make_patch
from etude.generators.validation.checks.duplicates import (
    MIN_SHINGLES,
    Fingerprint,
    duplicates,
    fingerprint,
    same,
    shape,
)
from etude.generators.validation.checks.exercise import Exercise
from etude.generators.validation.checks.similarity import bands, jaccard, patch_shingles, shingles
from etude.models import GeneratorRef, Task

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


def function(source: str) -> ast.FunctionDef:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def lines(*numbers: int) -> frozenset[tuple[str, int]]:
    return frozenset(("m.py", number) for number in numbers)


STUB = frozenset({("mode", "stub"), ("tests", "hidden")})
BASE = Fingerprint("a", "pkg 1", STUB, "", "", frozenset("tuvwxyz0123"), lines(1, 2, 3, 4))


def test_the_shape_ignores_names_docstrings_annotations_and_layout():
    assert shape([function(ONE)]) == shape([function(RENAMED)]) != ""


def test_the_shape_differs_when_the_computation_does():
    assert shape([function(ONE)]) != shape([function(ONE.replace("total /", "total //"))])


def test_the_shape_differs_when_another_function_is_called():
    assert shape([function(ONE.replace("len(values)", "size(values)"))]) != shape([function(ONE)])


def test_code_has_no_shape_when_it_is_small():
    assert shape([function("def f(x): return x")]) == ""


def test_a_vendored_copy_is_a_duplicate_across_packages():
    one = replace(BASE, shape="s")
    other = replace(BASE, task_id="b", package="other 2", shape="s", tests=frozenset("q"), lines=lines(90))
    assert duplicates([one, other]) == {"b": "a"}


def test_stub_and_remove_of_one_function_are_two_exercises():
    one = replace(BASE, shape="s")
    assert not same(one, replace(one, task_id="b", variant=frozenset({("mode", "remove"), ("tests", "hidden")})))


def test_two_functions_under_the_same_tests_are_two_exercises():
    assert not same(BASE, replace(BASE, task_id="b", lines=lines(20, 21, 22)))


def test_a_class_repeats_a_method_when_it_is_little_more_than_that_method():
    assert same(BASE, replace(BASE, task_id="b", lines=lines(1, 2, 3, 4, 5)))
    assert not same(BASE, replace(BASE, task_id="b", lines=lines(*range(1, 40))))


def test_the_same_lines_are_two_exercises_when_other_tests_fail():
    assert not same(BASE, replace(BASE, task_id="b", tests=frozenset("tuv")))


def test_the_first_of_a_group_stays_whatever_its_name():
    assert duplicates([replace(BASE, task_id="z"), replace(BASE, task_id="a"), replace(BASE, task_id="b")]) == {
        "a": "z",
        "b": "z",
    }


def task_from(before: str, after: str, name: str, **knobs: object) -> Fingerprint:
    old, new = {"m.py": before.encode()}, {"m.py": after.encode()}
    reference = GeneratorRef(name="g", version="1", seed=0, knobs=knobs)
    patch = make_patch(old, new)
    task = Task(task_id=name, repo="pkg", generator=reference, problem_statement="", patch=patch, FAIL_TO_PASS=["t"])
    return fingerprint(task, Exercise(task, old, new))


def test_two_mistakes_in_one_function_are_two_exercises():
    wrong_sum = task_from(ONE.replace("total += value", "total -= value"), ONE, "a")
    wrong_default = task_from(ONE.replace("if values else default", "if default else default"), ONE, "b")
    assert wrong_sum.shape == wrong_default.shape != ""
    assert not same(wrong_sum, wrong_default)
    assert same(wrong_sum, task_from(ONE.replace("total += value", "total *= value"), ONE, "c"))


def test_a_mistake_and_a_missing_body_are_two_exercises():
    stub = "def mean(values, default=0):\n    raise NotImplementedError\n"
    missing = task_from(stub, ONE, "a", mode="stub")
    assert missing.start == ""
    assert not same(missing, task_from(ONE.replace("total += value", "total -= value"), ONE, "b"))


def test_numbers_and_flags_among_the_knobs_do_not_make_another_variant():
    stub = "def mean(values, default=0):\n    raise NotImplementedError\n"
    one = task_from(stub, ONE, "a", mode="stub", max_lines=150)
    assert same(one, task_from(stub, ONE, "b", mode="stub", max_lines=400, dunder=False))


LONG = [f"    field_{number} = parse(record[{number}], kind_{number}, strict)" for number in range(30)]


def difference(lines: list[str], sign: str = "+") -> frozenset[int]:
    return patch_shingles("@@ -1 +1 @@\n" + "".join(f"{sign}{line}\n" for line in lines))


def test_the_same_files_are_a_duplicate_whatever_the_generator_and_its_choices():
    one = replace(BASE, shape="s", files="f")
    other = replace(one, task_id="b", variant=frozenset({("style", "terse")}), tests=frozenset("q"), lines=lines(9))
    assert duplicates([one, other]) == {"b": "a"}
    assert duplicates([one, replace(other, package="other 1", shape="", files="f")]) == {}


def test_a_changed_copy_in_another_package_is_a_duplicate():
    vendored = [*LONG[:29], "    field_29 = parse(record[29], kind_29, True)"]
    one = replace(BASE, patch=difference(LONG))
    other = replace(BASE, task_id="b", package="other 2", patch=difference(vendored), tests=frozenset("q"))
    assert duplicates([one, other]) == {"b": "a"}
    assert duplicates([one, replace(other, patch=difference(LONG[15:] + vendored[:5]))]) == {}


def test_small_differences_are_never_similar():
    one, other = (replace(BASE, task_id=name, package=name, patch=difference(LONG[:1])) for name in "ab")
    assert 0 < len(one.patch) < MIN_SHINGLES and duplicates([one, other]) == {}


def test_two_mistakes_are_the_same_exercise_when_function_tests_and_statement_are():
    words = shingles(["I ran into this with pkg 1: the mean of no values is wrong, and so is its median"])
    one = replace(BASE, places=frozenset({"m.py::mean"}), statement=words)
    other = replace(one, task_id="b", lines=lines(40))
    assert same(one, other)
    assert not same(one, replace(other, statement=shingles(["mean() returns None where it should raise an error"])))
    assert not same(one, replace(other, places=frozenset({"m.py::median"})))
    assert not same(one, replace(other, tests=frozenset("xyz")))


def test_added_and_removed_code_are_not_the_same():
    assert jaccard(difference(LONG), difference(LONG, "-")) == 0.0
    assert difference(LONG) == difference([f"  {line}  " for line in LONG])
    assert difference([*LONG, "    # a note"]) == difference(LONG)


def test_similar_texts_share_a_band():
    changed = [*LONG[:28], "    other = 1", *LONG[28:]]
    assert jaccard(difference(LONG), difference(changed)) > 0.8
    assert set(bands(difference(LONG))) & set(bands(difference(changed)))
    assert not set(bands(difference(LONG))) & set(bands(difference(["nothing of this is alike here"] * 9)))
    assert list(bands(frozenset())) == []


def test_a_large_set_is_compared_in_seconds():
    many = [
        replace(BASE, task_id=str(n), package=f"p{n % 40} 1", tests=frozenset({str(n)}), lines=lines(n))
        for n in range(4000)
    ]
    started = time.process_time()
    assert duplicates([*many, replace(many[7], task_id="again")]) == {"again": "7"}
    assert time.process_time() - started < 5
