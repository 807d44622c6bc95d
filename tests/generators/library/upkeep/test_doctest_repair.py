"""The generator ``doctest_repair``: mistakes that examples show, stale outputs, and the hidden test that runs them."""

from __future__ import annotations

import difflib
import subprocess
import sys

import pytest
from helpers.light_checks import LIGHT

from etude.errors import NotApplicable
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.upkeep.doctest_repair import DoctestRepair
from etude.generators.library.upkeep.examples import module_examples, other_output
from etude.models import Task

PATH = "src/basket/fruit.py"
HIDDEN = "tests/test_examples_of_fruit.py"


def candidates(snapshot, seed=0, **knobs):
    return list(DoctestRepair().candidates(snapshot, seed, parse_knobs(DoctestRepair.knobs, knobs)))


def changed_lines(snapshot, candidate):
    """Return the lines that the exercise has instead of the source's."""
    before = (snapshot.tree / PATH).read_text().splitlines()
    lines = difflib.ndiff(before, candidate.exercise[PATH].decode().splitlines())
    return [line[2:].strip() for line in lines if line.startswith("+ ")]


def test_examples_are_found_with_the_outputs_that_are_checked(snapshot):
    found = {item.name: item.checked for item in module_examples((snapshot.tree / PATH).read_bytes())}
    assert found == {"weigh": 2, "labels": 1}


@pytest.mark.parametrize(
    ("want", "stale"),
    [
        ("6", "7"),
        ("True", "False"),
        ("'fig'", "'fi'"),
        ("[1, 2]", "[2, 1]"),
        ("[1, 1]", "[1]"),
        ("<Fig>", ""),
        ("[]", ""),
    ],
)
def test_a_stale_output_is_a_near_value_of_the_same_type(want, stale):
    assert other_output(want) == stale


def test_a_mistake_is_in_documented_code_alone(snapshot):
    lines = {line for item in candidates(snapshot, cause="code") for line in changed_lines(snapshot, item)}
    assert "total -= weight + tare // 2" in lines and "return total - tare" in lines
    assert not any("seen" in line or "any(" in line for line in lines)


def test_stale_outputs_leave_code_and_skipped_examples_as_they_are(snapshot):
    lines = [changed_lines(snapshot, item) for item in candidates(snapshot, cause="examples")]
    assert {line for changed in lines for line in changed} <= {"7", "1", "['Pear', 'Fig']"} and len(lines) == 2


def test_either_cause_takes_turns(snapshot):
    causes = [item.features["cause"] for item in candidates(snapshot)]
    assert set(causes[:3]) == {"code", "examples"}


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed, cause="code")] for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1


def test_a_package_without_examples_is_not_applicable(snapshot):
    (snapshot.tree / PATH).write_text("def weigh():\n    return 1\n")
    with pytest.raises(NotApplicable, match="no examples in its docstrings"):
        candidates(snapshot)


def test_the_statement_names_the_docstrings_and_says_which_side_is_right(snapshot):
    failing = [f"{HIDDEN}::test_examples[weigh]", "tests/test_basket.py::test_no_weight"]
    context = StatementContext(package="basket 1.0", failing=failing, interface=[])
    for item in candidates(snapshot):
        text = item.statement.render(context)
        assert "`basket.fruit.weigh`" in text and "no weight" in text and "basket 1.0" in text
        assert ("The examples are right" in text) == (item.features["cause"] == "code")
        assert "total" not in text and "labels" not in text


@pytest.mark.parametrize(
    ("before", "after", "passes"),
    [
        ("", "", True),
        ("total + tare", "total - tare", False),
        ("    6\n", "    7\n", False),
        ("    >>> weigh([])\n    0\n", "", False),
        ("    >>> weigh([])\n", "    >>> weigh([1])\n    1\n    >>> weigh([])\n", True),
    ],
    ids=["pristine", "wrong code", "stale output", "removed example", "more examples"],
)
def test_the_hidden_test_wants_right_code_and_every_example(snapshot, before, after, passes):
    hidden = candidates(snapshot)[0].hidden_tests
    (snapshot.tree / HIDDEN).write_bytes(hidden.added[HIDDEN])
    source = (snapshot.tree / PATH).read_text()
    (snapshot.tree / PATH).write_text(source.replace(before, after, 1))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=src", HIDDEN]
    run = subprocess.run(command, cwd=snapshot.tree, capture_output=True, text=True)
    assert (run.returncode == 0) == passes, run.stdout
    assert hidden.affected[:2] == [f"{HIDDEN}::test_examples[{name}]" for name in ("labels", "weigh")]


@pytest.mark.slow
def test_candidates_of_both_causes_become_tasks(basket, tmp_path):
    out = tmp_path / "out"
    report = generate([str(basket)], generators=["doctest_repair"], count=2, seed=1, out=out, knobs=LIGHT)
    assert (report.candidates, report.tasks) == (2, 2), report.rejected
    for line in (out / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        assert task.FAIL_TO_PASS[0].startswith(HIDDEN) and task.PASS_TO_PASS
        assert HIDDEN in task.test_patch and HIDDEN not in task.workspace_patch
        assert "weigh" not in task.task_id and "labels" not in task.task_id


def test_examples_that_use_unknown_names_are_left_out() -> None:
    source = b'''
import math


def area(r):
    """
    >>> round(area(1))
    3
    >>> half = area(1) / 2
    >>> half > 1
    True
    """
    return math.pi * r * r


def parse(text):
    """
    >>> doc = shapes.parse("x")
    >>> doc
    1
    """


def fails():
    """
    >>> missing
    Traceback (most recent call last):
    NameError: name 'missing' is not defined
    >>> [item for item in (1, 2)]
    [1, 2]
    """
'''
    assert [item.name for item in module_examples(source)] == ["area", "fails"]
    assert [item.name for item in module_examples(b"from shapes import *\n" + source)] == ["area", "parse", "fails"]
