"""The generator ``bug_operator``: one wrong operator where tests look, and a report that does not name the place."""

from __future__ import annotations

import difflib
from types import SimpleNamespace

import pytest
from helpers.paths import DATA

from etude.errors import GeneratorError
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.mutation.bug_operator import OperatorBug
from etude.models import InterfaceItem, Task

SOURCE = """\
LIMIT = 3 < 4


def full(shelf, most):
    if not shelf or most is None:
        return False
    return len(shelf) >= most


def unused(shelf):
    return shelf == []
"""
TESTS = [f"tests/test_shelf.py::test_{name}" for name in ("full", "empty", "other", "more")]
COVERED = {TESTS[0]: [5, 7], TESTS[1]: [5, 6]}


@pytest.fixture
def snapshot(tmp_path):
    (tmp_path / "shelf.py").write_text(SOURCE)
    lines = {test: {"shelf.py": COVERED.get(test, [])} for test in TESTS}
    baseline = SimpleNamespace(passed=TESTS, tests_of={}, at_import=[], covered=lines.__getitem__)
    verifier = SimpleNamespace(python_path=["."])
    return SimpleNamespace(tree=tmp_path, source_roots=["shelf.py"], verifier=verifier, baseline=baseline)


def candidates(snapshot, seed=0, **knobs):
    return list(OperatorBug().candidates(snapshot, seed, parse_knobs(OperatorBug.knobs, knobs)))


def changed_lines(candidate):
    """Return the lines that the exercise has instead of the source's."""
    before, after = SOURCE.splitlines(), candidate.exercise["shelf.py"].decode().splitlines()
    return [line[2:].strip() for line in difflib.ndiff(before, after) if line.startswith("+ ")]


def test_each_candidate_changes_one_operator_on_a_line_that_tests_run(snapshot):
    found = {line for candidate in candidates(snapshot) for line in changed_lines(candidate)}
    assert found == {
        "if shelf or most is None:",
        "if not shelf and most is None:",
        "if not shelf or most is not None:",
        "return len(shelf) > most",
    }


def test_the_tests_of_a_candidate_are_those_of_its_line(snapshot):
    tests = {
        line: candidate.hidden_tests.affected for candidate in candidates(snapshot) for line in changed_lines(candidate)
    }
    assert tests["return len(shelf) > most"] == [TESTS[0]]
    assert tests["if not shelf and most is None:"] == TESTS[:2]


def test_a_line_is_skipped_when_too_many_tests_run_it(snapshot):
    lines = [line for candidate in candidates(snapshot, max_share=0.25) for line in changed_lines(candidate)]
    assert lines == ["return len(shelf) > most"]


def test_only_the_operators_of_the_knob_are_changed(snapshot):
    changed = {line for item in candidates(snapshot, operators="boolean") for line in changed_lines(item)}
    assert changed == {"if shelf or most is None:", "if not shelf and most is None:"}
    with pytest.raises(GeneratorError, match="choose one of comparison, boolean, all"):
        parse_knobs(OperatorBug.knobs, {"operators": "arithmetic"})


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed)] for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_the_report_names_symptoms_and_not_the_place(snapshot):
    context = StatementContext(
        package="shelf 1.0", failing=TESTS[:1], interface=[InterfaceItem(name="shelf.full", kind="function")]
    )
    for candidate in candidates(snapshot):
        text = candidate.statement.render(context)
        assert "shelf 1.0" in text and "- full" in text and "`shelf.full`" in text
        assert "shelf.py" not in text and "operator" not in text and "comparison" not in text
        assert not any(line in text for line in (*changed_lines(candidate), *SOURCE.split("\n")[4:7]))


def test_candidates_of_a_package_become_tasks_whose_ids_do_not_name_the_place(tmp_path):
    report = generate([str(DATA / "scales")], generators=["bug_operator"], count=3, seed=1, out=tmp_path, jobs=2)
    assert report.candidates == 3 and report.tasks >= 1, report.rejected
    for line in (tmp_path / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        assert task.FAIL_TO_PASS and task.PASS_TO_PASS and task.generator.name == "bug_operator"
        assert not any(name in task.task_id for name in ("notes", "patterns", "index", "interval", "frequency"))
