"""The generator ``write_tests``: what loses its tests, the versions of the source, and the task that comes of it."""

from __future__ import annotations

import pytest
from helpers.paths import DATA

from etude.errors import GeneratorError, NotApplicable
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.authoring.write_tests import TestWriting
from etude.models import MutantsVerifier, Task


def candidates(snapshot, seed=0, **knobs):
    chosen = parse_knobs(TestWriting.knobs, {"min_mistakes": 1, "min_lines": 3, **knobs})
    return list(TestWriting().candidates(snapshot, seed, chosen))


def test_public_functions_and_classes_with_tests_of_their_own_are_proposed(snapshot):
    assert {item.subject for item in candidates(snapshot)} == {"full", "Shelf", "label"}
    assert {item.subject for item in candidates(snapshot, subject="class")} == {"Shelf"}
    assert {item.subject for item in candidates(snapshot, min_lines=7)} == {"Shelf"}


def test_the_tests_that_name_and_run_the_subject_leave(snapshot):
    removed = {item.subject: item.deliverable.oracle for item in candidates(snapshot)}
    tests = {subject: [test.partition("::")[2] for test in ids] for subject, ids in removed.items()}
    assert tests["full"] == ["test_full", "test_not_full", "test_add_to_full_shelf"]
    assert tests["Shelf"] == ["test_add", "test_add_to_full_shelf"]
    assert tests["label"] == ["test_label"]


def test_wrong_versions_have_a_mistake_on_a_line_that_the_tests_run(snapshot):
    by_subject = {item.subject: item for item in candidates(snapshot, mistakes=20)}
    wrong = by_subject["full"].deliverable.wrong
    texts = [files["shelf.py"].decode() for files in wrong]
    assert len(set(texts)) == len(texts) > 3
    for text in texts:
        compile(text, "shelf.py", "exec")
        assert "raise ValueError('no room')" in text.replace('"', "'")
    assert all(len(files) == 1 for files in by_subject["full"].deliverable.right)


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed)] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1
    assert candidates(snapshot, 3) == candidates(snapshot, 3)


def test_the_statement_names_the_file_and_the_rules_and_no_mistake(snapshot):
    item = next(item for item in candidates(snapshot) if item.subject == "full")
    context = StatementContext("shelf 1.0", ["t.py::test_full_shelf"], [], test_file="tests/test_full.py")
    text = item.statement.render(context)
    assert "`shelf.full`" in text and "`tests/test_full.py`" in text and "80%" in text
    assert "def full(shelf, most=MOST)" in text and "shelf 1.0" in text
    assert "full shelf" not in text
    topics = next(item for item in candidates(snapshot, topics=True) if item.subject == "full")
    assert "- full shelf" in topics.statement.render(context)


def test_knobs_bound_the_subjects(snapshot):
    assert not candidates(snapshot, min_mistakes=40)
    assert {item.subject for item in candidates(snapshot, max_share=0.3)} == {"Shelf", "label"}
    with pytest.raises(GeneratorError, match="least_share"):
        parse_knobs(TestWriting.knobs, {"least_share": 0})


def test_a_suite_of_unittest_is_refused(snapshot):
    snapshot.verifier.kind = "unittest"
    with pytest.raises(NotApplicable, match="pytest"):
        candidates(snapshot)


def test_a_candidate_becomes_a_task(tmp_path):
    knobs = {"max_share": 0.9, "mistakes": 5, "min_mistakes": 2, "min_lines": 3}
    report = generate([str(DATA / "scales")], generators=["write_tests"], count=1, seed=1, out=tmp_path, knobs=knobs)
    assert report.tasks >= 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text().splitlines()[0])
    assert isinstance(task.verifier, MutantsVerifier) and task.source_globs == [task.verifier.test_file]
    assert task.verifier.test_file in task.problem_statement
    assert task.features["wrong_versions"] >= 2
