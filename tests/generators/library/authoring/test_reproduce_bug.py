"""The generator ``reproduce_bug``: the bug, its versions, the report, and the task that comes of it."""

from __future__ import annotations

from helpers.paths import DATA

from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.authoring.reproduce_bug import BugReproduction
from etude.generators.library.mutation.bug_operator import OperatorBug
from etude.models import MutantsVerifier, Task


def candidates(snapshot, seed=0, **knobs):
    return list(BugReproduction().candidates(snapshot, seed, parse_knobs(BugReproduction.knobs, knobs)))


def test_the_bugs_are_those_of_the_other_generator_in_its_order(snapshot):
    bugs = list(OperatorBug().candidates(snapshot, 4, OperatorBug.knobs()))
    items = candidates(snapshot, 4)
    assert [item.exercise for item in items] == [bug.exercise for bug in bugs] and items
    assert all(item.generator.name == "reproduce_bug" and not item.probes for item in items)


def test_right_and_wrong_versions_are_the_source_and_the_bug_with_variants(snapshot):
    source = (snapshot.tree / "shelf.py").read_bytes()
    for item in candidates(snapshot):
        right, wrong = (
            [files["shelf.py"] for files in side] for side in (item.deliverable.right, item.deliverable.wrong)
        )
        assert right[0] == source and wrong[0] == item.exercise["shelf.py"]
        assert len({*right, *wrong}) == len(right) + len(wrong) == 6
        assert item.deliverable.least == len(wrong) and item.deliverable.least_share == 1.0


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed)] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_the_report_names_symptoms_and_not_the_place(snapshot):
    test = "tests/test_shelf.py::test_full"
    context = StatementContext(
        "shelf 1.0", [test], [], messages={test: "AssertionError: assert not True"}, test_file="tests/test_report.py"
    )
    for item in candidates(snapshot):
        text = item.statement.render(context)
        assert "- full" in text and "assert not True" in text and "`tests/test_report.py`" in text
        assert "shelf.py" not in text.replace("test_shelf.py", "") and "operator" not in text
    silent = candidates(snapshot, observed=False)[0].statement.render(context)
    assert "assert not True" not in silent


def test_a_bug_becomes_a_task(tmp_path):
    report = generate([str(DATA / "scales")], generators=["reproduce_bug"], count=1, seed=1, out=tmp_path)
    assert report.tasks >= 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text().splitlines()[0])
    assert isinstance(task.verifier, MutantsVerifier) and task.verifier.least_share == 1.0
    assert task.verifier.test_file in task.problem_statement and not task.FAIL_TO_PASS
