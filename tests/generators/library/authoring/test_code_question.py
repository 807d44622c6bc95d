"""The generator ``code_question``: what is asked, how it is answered, and the task that comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice

import pytest
from helpers.paths import DATA

from etude.errors import GeneratorError, Rejected
from etude.generators.base import Observed, StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.authoring.code_question import CodeQuestions
from etude.generators.library.authoring.observed_calls import called_functions
from etude.generators.python.source_tree import SourceTree
from etude.models import AnswerVerifier, Task

FILE = "tests/test_shelf.py"


def candidates(snapshot, seed=0, **knobs):
    return list(CodeQuestions().candidates(snapshot, seed, parse_knobs(CodeQuestions.knobs, knobs)))


def question(snapshot, kind, seed=0):
    return candidates(snapshot, seed, kind=kind)[0].deliverable.question


def printed(snapshot, program):
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=snapshot.tree, capture_output=True, text=True, check=True
    )
    return result.stdout.strip().splitlines()[-1]


def test_the_kinds_of_questions_take_turns(snapshot):
    kinds = [item.features["question"] for item in islice(candidates(snapshot), 4)]
    assert sorted(kinds) == ["functions_of_call", "functions_of_test", "tests_of_line", "value_of_call"]
    assert {item.features["question"] for item in candidates(snapshot, kind="tests_of_line")} == {"tests_of_line"}
    with pytest.raises(GeneratorError, match="kind"):
        parse_knobs(CodeQuestions.knobs, {"kind": "colour"})


def test_functions_that_tests_call_with_literals_can_be_asked_about(snapshot):
    calls = {item.dotted: item.calls for item in called_functions(SourceTree.of(snapshot))}
    assert calls == {
        "shelf.full": ("full([])", "full(['a'], 2)"),
        "shelf.label": ("label('big books', 'maps ')", "label('a', sep='-')"),
    }


def test_the_tests_of_a_line_are_those_that_coverage_shows(snapshot):
    questions = [item.deliverable.question for item in candidates(snapshot, kind="tests_of_line")]
    assert {(item.path, item.line) for item in questions} >= {("shelf.py", 9)}
    item = next(item for item in questions if item.line == 9)
    covered = {
        f"{FILE}::test_add": {"shelf.py": [8, 9]},
        f"{FILE}::test_x[1]": {"shelf.py": [9]},
        "": {"shelf.py": [9]},
    }
    assert item.answer(Observed("", covered)).answer == f"{FILE}::test_add, {FILE}::test_x"
    with pytest.raises(Rejected, match="1 names"):
        item.answer(Observed("", {f"{FILE}::test_add": {"shelf.py": [9]}}))


def test_the_functions_of_a_test_are_those_that_the_import_does_not_run(snapshot):
    items = candidates(snapshot, kind="functions_of_test")
    item = next(item.deliverable.question for item in items if item.deliverable.question.test == f"{FILE}::test_add")
    covered = {item.test: {"shelf.py": [8, 18, 21, 36]}, "": {"shelf.py": [36]}}
    answered = item.answer(Observed("", covered))
    assert answered.answer == "shelf.Shelf.__init__, shelf.Shelf.add, shelf.full"
    assert item.traced == (item.test,)


def test_the_value_of_a_call_is_what_the_program_prints(snapshot):
    items = [item.deliverable.question for item in candidates(snapshot, kind="value_of_call")]
    item = next(item for item in items if "label" in item.program)
    observed = json.loads(printed(snapshot, item.program))
    assert observed and not {"label('big books', 'maps ')", "label('a', sep='-')"} & observed.keys()
    for call, (text, places) in observed.items():
        assert places and places[0][0] == "shelf.py"
        assert text.startswith("'") and call.startswith("label(")
    values = Observed(json.dumps({"label('a', 'b')": ["'long value'", []], "label('x')": ["'x'", []]}), {})
    assert item.answer(values).answer == "'long value'"
    assert item.answer(values).question == "shelf.label('a', 'b')"
    with pytest.raises(Rejected, match="worth asking"):
        item.answer(Observed(json.dumps({"label('x y z')": ["'x y z'", []], "label(1)": ["1", []]}), {}))


def test_the_functions_of_a_call_are_named_with_their_classes(snapshot):
    item = question(snapshot, "functions_of_call")
    places = [["shelf.py", 6], ["shelf.py", 18], ["shelf.py", 20], ["other.py", 1]]
    answered = item.answer(Observed(json.dumps({"full([1])": ["False", places]}), {}))
    assert answered.answer == "shelf.Shelf.__init__, shelf.Shelf.add, shelf.full"


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed, kind="tests_of_line")] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len({tuple(sorted(order)) for order in orders}) == 1
    assert candidates(snapshot, 2) == candidates(snapshot, 2)


def test_the_statement_holds_the_question_the_form_and_no_answer(snapshot):
    context = StatementContext("shelf 1.0", [], [], question="shelf.label('a', 'b')")
    for item in candidates(snapshot):
        text = item.statement.render(context)
        assert "shelf 1.0" in text and "`submit`" in text and "{question}" not in text
        assert ("shelf.label('a', 'b')" in text) == item.features["question"].endswith("_call")


def test_questions_become_tasks(tmp_path):
    report = generate([str(DATA / "scales")], generators=["code_question"], count=4, seed=1, out=tmp_path)
    assert report.tasks >= 2, report.rejected
    for line in (tmp_path / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        assert isinstance(task.verifier, AnswerVerifier) and task.verifier.answer not in task.problem_statement
        assert not task.patch and not task.workspace_patch and not task.FAIL_TO_PASS
