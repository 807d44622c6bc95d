"""The generator ``tdd_step``: what a feature keeps for its first tests, and what the workspace shows of the next."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.authoring.tdd.step_statement import Missing
from etude.generators.library.authoring.tdd_step import TestDrivenStep
from etude.models import Task

# A comment names the tests that run its line.
TILL = '''\
"""A till."""

import math


def price(item, rate=None):
    """Return a price as text."""
    if item is None:  # plain first third rated rated[7] broken
        return "free"  # first
    elif item == 0:  # plain third rated rated[7] broken
        value = "nothing"  # third
        return value  # third
    try:  # plain rated rated[7] broken
        value = float(item)  # plain rated rated[7] broken
    except ValueError:  # broken
        # Not a number.
        value = _guess(item)  # broken
    for digit in [] if rate is None else [rate]:  # plain rated rated[7] broken
        value *= math.floor(digit)  # rated rated[7]
        value += 1  # rated rated[7]
        value -= 1  # rated rated[7]
    return f"{value:.2f}"  # plain rated rated[7] broken


def _guess(item):
    words = item.split()  # broken
    return len(words)  # broken


class Till:
    """Holds money."""

    def __init__(self):
        self.money = []  # put total shut

    def put(self, coin):
        """Put a coin in."""
        if self.money is None:  # put total shut
            raise ValueError("shut")  # shut
        self.money.append(coin)  # put total

    def total(self):
        """Return the sum.

        >>> Till().total()
        0
        """
        coins = list(self.money)  # total
        return sum(coins)  # total

    def shut(self):
        money = self.money  # shut
        self.money = None  # shut
        return money  # shut

    def each(self):
        for coin in self.money:  # total
            yield coin  # total
            yield None  # total

    close = shut


count = Till.total


def single(x):
    return x  # put


def lines(x):
    for item in x:  # put total
        yield item  # total
'''
TESTS = """\
import pytest
from till import Till, price


def test_first():
    assert price(None) == "free"


def test_plain():
    assert price(1) == "1.00"
    assert price(2) == "2.00"
    assert price(3) == "3.00"
    assert price(4) == "4.00"


def test_third():
    word = price(0)
    assert word == "nothing"


@pytest.mark.parametrize("rate, shown", [(2, "2.00"), (3, "3.00"), (4, "4.00"), (7, "7.00")])
def test_rated(rate, shown):
    assert price(1, rate) == shown


def test_broken():
    assert price("a b") == "2.00"


def test_put():
    Till().put(1)


def test_total():
    till = Till()
    till.put(2)
    assert till.total() == 2


def test_shut():
    till = Till()
    till.shut()
    with pytest.raises(ValueError):
        till.put(1)
"""
FILE = "tests/test_till.py"
NAMES = ("first", "plain", "third", "rated[2]", "rated[3]", "rated[4]", "rated[7]", "broken", "put", "total", "shut")
IDS = [f"{FILE}::test_{name}" for name in NAMES]


def lines_of(name):
    rows = enumerate(TILL.splitlines(), 1)
    marks = {number: text.rpartition("  # ")[2].split() for number, text in rows if "  # " in text}
    words = {name, name.partition("[")[0]}
    return [number for number, mark in marks.items() if words & set(mark)]


@pytest.fixture
def snapshot(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "till.py").write_text(TILL)
    (tmp_path / FILE).write_text(TESTS)
    covered = {test: {"till.py": lines_of(name)} for test, name in zip(IDS, NAMES, strict=True)}
    baseline = SimpleNamespace(passed=IDS, dropped={}, tests_of={}, at_import=[], covered=covered.__getitem__)
    verifier = SimpleNamespace(python_path=["."], kind="pytest")
    return SimpleNamespace(tree=tmp_path, source_roots=["till.py"], verifier=verifier, baseline=baseline)


def candidates(snapshot, seed=0, **knobs):
    return list(TestDrivenStep().candidates(snapshot, seed, parse_knobs(TestDrivenStep.knobs, knobs)))


def by_test(snapshot, name, feature, **knobs):
    return next(
        item
        for item in candidates(snapshot, **knobs)
        if item.statement.test.endswith(name) and f"::{feature}." in item.entity
    )


def bare(source):
    """Return the source without the marks at the ends of its lines."""
    return re.sub(r"  # .*", "", source.decode())


def body(source, start, end):
    return bare(source)[bare(source).index(start) : bare(source).index(end)]


def test_each_step_but_the_first_of_a_feature_is_proposed(snapshot):
    tests = sorted((item.entity, item.statement.test.partition("::")[2]) for item in candidates(snapshot))
    assert tests == [
        ("till.py::Till.step2", "test_shut"),
        ("till.py::Till.step3", "test_total"),
        ("till.py::price.step2", "test_third"),
        ("till.py::price.step3", "test_plain"),
        ("till.py::price.step4", "test_rated"),
        ("till.py::price.step5", "test_broken"),
    ]


def test_the_exercise_has_what_earlier_tests_run_and_the_solution_what_the_step_adds(snapshot):
    item = by_test(snapshot, "test_third", "price")
    head = (
        'def price(item, rate=None):\n    """Return a price as text."""\n    if item is None:\n        return "free"\n'
    )
    end = "\n\nclass Till"
    assert body(item.exercise["till.py"], "def price", end).strip() == head.strip()
    step = '    elif item == 0:\n        value = "nothing"\n        return value\n'
    assert body(item.solution["till.py"], "def price", end).strip() == (head + step).strip()
    assert b"import math" not in item.exercise["till.py"]  # only later steps need it


def test_handlers_and_their_helpers_go_and_come_back(snapshot):
    item = by_test(snapshot, "test_rated", "price")
    assert "    value = float(item)\n    return f" in body(item.exercise["till.py"], "def price", "\n\nclass Till")
    assert b"_guess" not in item.solution["till.py"] and b"for digit" in item.solution["till.py"]
    last = by_test(snapshot, "test_broken", "price")
    assert b"_guess" not in last.exercise["till.py"] and not last.solution  # the Snapshot is the solution


def test_methods_go_unless_the_module_needs_their_names(snapshot):
    item = by_test(snapshot, "test_shut", "Till")
    after = bare(item.exercise["till.py"])
    assert "def each" not in after and "    def shut(self):\n        raise NotImplementedError" in after
    assert '        0\n        """\n        raise NotImplementedError' in after  # of the method ``total``
    assert "    def put(self, coin):" in after and "raise ValueError" not in after
    methods = [item.name for item in by_test(snapshot, "test_total", "Till").statement.missing]
    assert methods == ["Till.each"]


def test_a_generator_never_becomes_a_function(snapshot):
    assert not [item for item in candidates(snapshot, min_lines=1) if "::lines" in item.entity]


def test_every_exercise_and_solution_compiles(snapshot):
    for item in candidates(snapshot, min_lines=1):
        for files in (item.exercise, item.solution):
            for content in files.values():
                ast.parse(content)


def test_later_tests_leave_and_the_next_test_stays(snapshot):
    item = by_test(snapshot, "test_third", "price")
    shown = item.hidden_tests.step.shown[FILE].decode()
    assert "def test_third" in shown and "def test_first" in shown and "def test_put" in shown
    for name in ("test_plain", "test_rated", "test_broken"):
        assert f"def {name}" not in shown
    assert sorted(item.hidden_tests.step.later) == sorted([IDS[1], *IDS[3:8]])
    assert item.hidden_tests.affected == [IDS[2]]


def test_cases_that_run_no_other_lines_are_held_back(snapshot):
    item = by_test(snapshot, "test_rated", "price")
    shown = item.hidden_tests.step.shown[FILE].decode()
    assert '[(2, "2.00"), (3, "3.00")]' in shown and '(4, "4.00")' not in shown
    assert item.hidden_tests.affected == IDS[3:7] and item.hidden_tests.step.given_cases == IDS[3:5]
    whole = by_test(snapshot, "test_rated", "price", hold_out=False)
    assert '(7, "7.00")' in whole.statement.shown_test.text and whole.hidden_tests.step.given_cases == IDS[3:7]


def test_assertions_at_the_end_that_differ_in_constants_are_held_back(snapshot):
    item = by_test(snapshot, "test_plain", "price")
    assert item.statement.shown_test.held_assertions == 1
    assert "price(3)" in item.statement.shown_test.text and "price(4)" not in item.statement.shown_test.text


def test_the_statement_gives_test_feature_and_methods_to_add(snapshot):
    context = StatementContext("till 1.0", IDS[3:7], [])
    text = by_test(snapshot, "test_rated", "price").statement.render(context)
    for part in (
        "# The next step of `price`",
        "the function `till.price` (in `till.py`)",
        f"fails: `{FILE}::test_rated`",
        "def test_rated(rate, shown):",
        "with 2 more cases of the same kind in this test",
    ):
        assert part in text
    assert "floor" not in text and "Hidden tests" not in text
    text = by_test(snapshot, "test_shut", "Till").statement.render(StatementContext("till 1.0", [*IDS[8:]], []))
    assert "Hidden tests run the same code:\n\n- put\n- total" in text


def test_the_title_says_what_is_missing_or_what_fails(snapshot):
    item = by_test(snapshot, "test_rated", "price")
    errors = {IDS[3]: "TypeError: price() takes 1 positional argument", IDS[4]: "AssertionError: assert 1 == 2"}
    text = item.statement.render(StatementContext("till 1.0", IDS[3:7], [], errors))
    assert text.startswith("# `price` fails with `TypeError: price() takes 1 positional argument`\n")
    missing = [Missing(f"Till.{name}", f"def {name}(self)", "") for name in ("put", "take", "count")]
    text = replace(item.statement, missing=missing).render(StatementContext("till 1.0", IDS[3:7], [], errors))
    assert text.startswith("# Add `Till.put`, `Till.take` and `Till.count`\n")


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [tuple(item.entity for item in candidates(snapshot, seed)) for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and len(set(orders)) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_steps_that_add_too_little_or_too_much_are_left_out(snapshot):
    assert {item.entity for item in candidates(snapshot, min_lines=5)} < {item.entity for item in candidates(snapshot)}
    assert not candidates(snapshot, max_lines=1)


def test_a_step_that_breaks_too_many_tests_is_left_out(snapshot):
    assert "till.py::price.step4" not in {item.entity for item in candidates(snapshot, max_share=0.3)}


def test_a_step_of_a_package_becomes_a_task(tmp_path):
    report = generate([str(DATA / "cellar")], generators=["tdd_step"], count=1, seed=8, out=tmp_path, knobs=LIGHT)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert task.FAIL_TO_PASS and "# Add `Shelf.describe`\n" in task.problem_statement
