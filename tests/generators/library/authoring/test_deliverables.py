"""Validation of what agents hand in: the oracle, the protected paths, answers that can be read, and duplicates."""

from __future__ import annotations

import pytest

from etude.environments.grading import matches
from etude.environments.grading.mutants import Version, pack
from etude.errors import Rejected
from etude.generators.base import WrittenTests
from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.duplicates import duplicates, fingerprint
from etude.generators.validation.checks.exercise import Exercise
from etude.generators.validation.deliverables.exact_answers import readable_answer
from etude.generators.validation.deliverables.rows import protected_but
from etude.generators.validation.deliverables.written_tests import (
    copies_of_tests,
    make_oracle,
    new_test_file,
    versions_of,
)
from etude.models import AnswerVerifier, GeneratorRef, MutantsVerifier, Task
from etude.monitors.leaks import Leak

FILE = "tests/test_shelf.py"


def question(task_id: str = "one", answer: str = "four, five", text: str = "Which numbers?") -> Task:
    return Task(
        task_id=task_id,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement=text,
        verifier=AnswerVerifier(answer=answer, form="names", components=["answer"]),
    )


def test_the_oracle_is_a_copy_of_the_tests_without_the_others(snapshot):
    tests = [f"{FILE}::test_full", f"{FILE}::test_not_full"]
    oracle = make_oracle(snapshot, SourceTree.of(snapshot), tests, WrittenTests((), (), stem="full"))
    assert oracle.path == "tests/test_full.py" and oracle.tests == tests
    text = oracle.content.decode()
    assert "def test_full()" in text and "def test_not_full()" in text and 'FULL = ["a"' in text
    assert "test_add" not in text and "test_label" not in text and "test_other" not in text
    compile(text, oracle.path, "exec")


def test_an_oracle_of_all_tests_of_a_file_is_the_file(snapshot):
    tests = list(snapshot.baseline.passed)
    oracle = make_oracle(snapshot, SourceTree.of(snapshot), tests, WrittenTests((), ()))
    assert oracle.content == (snapshot.tree / FILE).read_bytes()


def test_tests_outside_python_files_are_no_oracle(snapshot):
    with pytest.raises(Rejected, match="no Python file"):
        make_oracle(snapshot, SourceTree.of(snapshot), ["README.md::README.md"], WrittenTests((), ()))


def test_a_new_test_file_has_a_name_that_is_free(snapshot):
    assert new_test_file(snapshot.tree, FILE, "label") == "tests/test_label.py"
    assert new_test_file(snapshot.tree, FILE, "shelf") == "tests/test_shelf_2.py"
    assert new_test_file(snapshot.tree, "test_top.py", "label") == "test_label.py"


def test_exactly_the_new_test_file_may_be_written(snapshot):
    (snapshot.tree / "tests" / "conftest.py").write_text("")
    (snapshot.tree / "tests" / "data.txt").write_text("")
    patterns = protected_but(snapshot, SourceTree.of(snapshot), "tests/test_full.py")
    assert not matches("tests/test_full.py", patterns)
    for path in (FILE, "tests/conftest.py", "tests/data.txt", "pyproject.toml", "setup.cfg", ".git/config"):
        assert matches(path, patterns), path


def test_versions_state_the_same_files_and_start_from_the_workspace(snapshot):
    tests = WrittenTests(right=[{"shelf.py": b"right"}], wrong=[{"shelf.py": b"wrong"}, {"other.py": b"new"}])
    versions = versions_of(snapshot.tree, {"shelf.py": b"workspace"}, tests)
    assert [(version.is_right, dict(version.files)) for version in versions] == [
        (True, {"other.py": None, "shelf.py": "right"}),
        (False, {"other.py": None, "shelf.py": "wrong"}),
        (False, {"other.py": "new", "shelf.py": "workspace"}),
    ]


def test_an_answer_in_the_statement_or_in_a_file_can_be_read(snapshot):
    assert readable_answer(question(), snapshot.tree) == ""
    assert "statement" in readable_answer(question(text="Is it `four, five`?"), snapshot.tree)
    (snapshot.tree / "notes.md").write_text("The numbers are four,\n  five.")
    assert "file" in readable_answer(question(), snapshot.tree)


def test_questions_with_the_same_text_and_answer_are_duplicates():
    tasks = [question("one"), question("two"), question("three", answer="six, seven"), question("four", text="Which?")]
    prints = [fingerprint(task, Exercise(task, {}, {})) for task in tasks]
    assert duplicates(prints) == {"two": "one"}


def test_the_same_tests_for_two_tasks_are_duplicates():
    source = b"".join(b"def test_%d():\n    assert full([%d, 2, 3]) == [%d]\n\n\n" % (n, n, n) for n in range(4))
    versions = pack([Version(True, {"a.py": ""}), Version(False, {"a.py": "1"})])
    tasks = []
    for name in ("one", "two"):
        path = f"tests/test_{name}.py"
        task = question(name).model_copy(update={"verifier": MutantsVerifier(test_file=path, versions=versions)})
        tasks.append(fingerprint(task, Exercise(task, {}, {path: source})))
    assert duplicates(tasks) == {"two": "one"}


def test_names_and_constants_of_tests_in_their_data_are_no_leak():
    leaks = [Leak("tests/data.diff", "text", kind, "big books") for kind in ("constant", "name", "code")]
    assert [leak.needle for leak in copies_of_tests(leaks)] == ["code"]
