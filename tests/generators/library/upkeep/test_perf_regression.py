"""The generator ``perf_regression``: slower code with the same results, and the test that counts operations."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from helpers.light_checks import LIGHT

from etude.errors import NotApplicable
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.upkeep.perf_regression import PerfRegression
from etude.generators.library.upkeep.speed.slowdowns import slowdowns
from etude.generators.python.source import SyntaxSpans
from etude.models import Task

PATH = "src/basket/fruit.py"


def candidates(snapshot, seed=0, **knobs):
    return list(PerfRegression().candidates(snapshot, seed, parse_knobs(PerfRegression.knobs, knobs)))


def slowed(text):
    """Return kind and text of each slowdown of the only function of a text."""
    source = text.encode()
    return [(item.kind, item.source.decode()) for item in slowdowns(SyntaxSpans(source), ast.parse(source).body[-1])]


def run(snapshot, path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=src", path]
    return subprocess.run(command, cwd=snapshot.tree, capture_output=True, text=True)


def test_a_set_for_membership_becomes_a_list():
    [(kind, text), (_, scan)] = slowed(
        "def f(xs):\n    a = set()\n    for x in xs:\n        if x in a: return\n        a.add(x)\n"
    )[:2]
    assert kind == "lookup" and "a = []" in text and "a.append(x)" in text
    assert "x in list(a)" in scan and "a = set()" in scan


def test_a_set_with_other_uses_stays_a_set():
    kinds = [text for _, text in slowed("def f(xs, y):\n    a = set(xs)\n    return a & y or 1 in a\n")]
    assert len(kinds) == 1 and "in list(a)" in kinds[0]


def test_an_early_exit_reads_the_whole_input():
    texts = {
        text for _, text in slowed("def f(xs):\n    for x in xs:\n        return x\n    return any(y for y in xs)\n")
    }
    assert any("for x in [each for each in xs]:" in text for text in texts)
    assert any("any([y for y in xs])" in text for text in texts)


def test_a_cache_is_taken_away():
    assert slowed("@lru_cache(maxsize=None)\ndef f(x):\n    return x\n") == [("cache", "def f(x):\n    return x\n")]


def test_lazy_loops_over_something_else_stay():
    assert slowed("def f(xs):\n    for x in xs:\n        yield x\n        return\n") == []
    assert slowed("def f(xs):\n    for x in range(3):\n        return x\n") == []


def test_candidates_are_of_tested_functions(snapshot):
    kinds = {(item.subject, item.features["kind"]) for item in candidates(snapshot)}
    assert kinds == {("distinct", "lookup"), ("unripe", "early exit")}
    assert {item.features["kind"] for item in candidates(snapshot, kind="lookup")} == {"lookup"}


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed)] for seed in (0, 0, *range(1, 9))]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1


def test_code_without_work_to_add_is_not_applicable(snapshot):
    (snapshot.tree / PATH).write_text("def weigh(fruit):\n    return len(fruit)\n")
    with pytest.raises(NotApplicable, match="no tested function that could be slowed down"):
        candidates(snapshot)


def test_the_hidden_test_tells_growth_apart(snapshot):
    pristine = (snapshot.tree / PATH).read_bytes()
    for item in candidates(snapshot):
        [(path, source)] = item.hidden_tests.added.items()
        (snapshot.tree / path).write_bytes(source)
        (snapshot.tree / PATH).write_bytes(pristine)
        assert run(snapshot, path).returncode == 0
        (snapshot.tree / PATH).write_bytes(item.exercise[PATH])
        result = run(snapshot, path)
        assert result.returncode == 1 and "operations at size 240" in result.stdout


def test_code_that_removes_the_trace_function_fails(snapshot):
    item = next(item for item in candidates(snapshot) if item.subject == "distinct")
    [(path, source)] = item.hidden_tests.added.items()
    (snapshot.tree / path).write_bytes(source)
    text = (
        (snapshot.tree / PATH)
        .read_text()
        .replace("    seen = set()\n", "    import sys; sys.settrace(None)\n    seen = []\n")
    )
    (snapshot.tree / PATH).write_text(text.replace("seen.add", "seen.append"))
    assert "the trace function was replaced" in run(snapshot, path).stdout


def test_the_statement_says_what_is_slow_and_how_it_is_counted(snapshot):
    item = next(item for item in candidates(snapshot) if item.subject == "distinct")
    failing = [test for test in item.hidden_tests.affected if "growth" in test]
    messages = {failing[0]: "AssertionError: 9 operations"}
    text = item.statement.render(StatementContext("basket 1.0", failing, [], messages))
    assert "# `basket.fruit.distinct` is slow on large inputs" in text and "at 60 and 240" in text
    assert "AssertionError: 9 operations" in text and "set" not in text.split("## Measured")[0].replace("settrace", "")


@pytest.mark.slow
def test_candidates_become_tasks(basket, tmp_path):
    out = tmp_path / "out"
    report = generate([str(basket)], generators=["perf_regression"], count=2, seed=1, out=out, knobs=LIGHT)
    assert (report.candidates, report.tasks) == (2, 2), report.rejected
    for line in (out / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        assert all("test_growth" in test for test in task.FAIL_TO_PASS) and task.PASS_TO_PASS
