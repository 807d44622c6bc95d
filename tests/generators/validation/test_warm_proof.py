"""Stage V2 in warm runs: the same rows as with whole runs in fresh sandboxes, and what is left to these."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.deleted_total import snapshot_of
from helpers.small_tasks import PROJECT

from etude.environments.snapshots import Snapshot, make_patch, scratch_tree
from etude.environments.snapshots.test_run.test_runner import Outcome
from etude.errors import Rejected
from etude.generators.base import Candidate, HiddenTests
from etude.generators.engine.screening import screen
from etude.generators.engine.warm_suite import TrialResult, WarmSuite
from etude.generators.library.mutation.bug_report import BugReport
from etude.generators.machines.steps import _judged
from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.final_checks import CheckKnobs
from etude.generators.validation.pipeline import Validator
from etude.generators.validation.warm_proof import WarmProof, only_removes
from etude.models import GeneratorRef, Task

CORE = """\
def scaled(value, factor=3):
    if value < 0:
        return 0
    return value * factor


def table(size):
    return [scaled(number) for number in range(size)]


def label(value):
    return "<%s>" % value
"""
TESTS = """\
import subprocess
import sys

import pytest

from gauge.core import label, scaled, table


@pytest.fixture(scope="module")
def numbers():
    return table(4)


@pytest.fixture(scope="module")
def sizes():
    return 3


@pytest.fixture(scope="module")
def labels(request):
    size = request.getfixturevalue("sizes")
    return [label(number) for number in range(size)]


def test_scaled():
    assert scaled(2) == 6


def test_negative():
    assert scaled(-1) == 0


def test_length(numbers):
    assert len(numbers) == 4


def test_values(numbers):
    assert numbers == [0, 3, 6, 9]


def test_label():
    assert label(1) == "<1>"


def test_labels(labels):
    assert len(labels) == 3


def test_first_label(labels):
    assert labels[0] == "<0>"


def test_program():
    out = subprocess.run([sys.executable, "-c", "from gauge.core import scaled; print(scaled(5))"], stdout=-1)
    assert out.stdout.strip() == b"15"
"""
FILES = {
    "pyproject.toml": PROJECT.format(name="gauge"),
    "src/gauge/__init__.py": "",
    "src/gauge/core.py": CORE,
    "tests/test_core.py": TESTS,
}
MODULE = "src/gauge/core.py"
CHANGES = (("value * factor", "value + factor"), ("return 0", "return 1"), ('"<%s>"', '"(%s)"'))


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("source") / "gauge", FILES)


def candidates(snapshot: Snapshot) -> list[Candidate]:
    functions = ["scaled", "scaled", "label"]
    return [
        Candidate(
            entity=f"{MODULE}::{number}",
            generator=GeneratorRef(name="hand", version="1", seed=0),
            exercise={MODULE: CORE.replace(before, after).encode()},
            hidden_tests=HiddenTests(snapshot.baseline.tests_of.get(f"{MODULE}::{function}", [])),
            statement=BugReport("hidden"),
            max_failing_share=1.0,
        )
        for number, ((before, after), function) in enumerate(zip(CHANGES, functions, strict=True))
    ]


def rows(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, *, warm: bool) -> tuple[list[Task], int]:
    """Return the tasks of the candidates, and how many whole runs their validation needed."""
    validator = Validator(snapshot, knobs=CheckKnobs(behaviour=False, controls=False))
    whole = 0
    run = validator.stages.run

    async def counted(tree: Path, tests: list[str] | None = None, *order: str):
        nonlocal whole
        whole += tests is None
        return await run(tree, tests, *order)

    monkeypatch.setattr(validator.stages, "run", counted)
    if not warm:

        async def nothing(*_: object) -> None:
            return None

        monkeypatch.setattr(validator.proof, "suite", nothing)
    made = candidates(snapshot)

    async def judged() -> list[Task]:
        screened = await screen(made, validator.warm.suite)
        group = [(candidate, item.run) for candidate, item in zip(made, screened, strict=True)]
        return [verdict for verdict in await _judged(validator, group) if isinstance(verdict, Task)]

    return asyncio.run(judged()), whole


def test_warm_runs_give_the_rows_of_whole_runs(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    cold, runs = rows(snapshot, monkeypatch, warm=False)
    assert len(cold) == len(CHANGES) and runs >= len(CHANGES)
    warm, runs = rows(snapshot, monkeypatch, warm=True)
    assert warm == cold and runs == 0
    assert [len(task.FAIL_TO_PASS) for task in warm] == [3, 1, 2]  # the program's test among the first three


def test_tests_that_share_a_fixture_and_tests_that_start_processes_are_known(snapshot: Snapshot) -> None:
    survey = asyncio.run(WarmSuite(snapshot).survey())
    assert survey is not None
    file = "tests/test_core.py::"
    assert survey.processes == {file + "test_program"}
    assert survey.closure([file + "test_length"]) == {file + "test_length", file + "test_values"}
    assert survey.closure([file + "test_labels"]) == {file + "test_labels", file + "test_first_label"}
    assert survey.closure([file + "test_label"]) == {file + "test_label"}


def test_what_screening_has_not_run_is_left_to_a_whole_run(snapshot: Snapshot, tmp_path: Path) -> None:
    validator = Validator(snapshot)
    candidate = candidates(snapshot)[0]
    proof, tree = WarmProof(validator.stages, validator.warm), SourceTree.of(snapshot)
    assert asyncio.run(proof.suite(candidate, None, tmp_path, tree)) is None
    at_import = replace(candidate, exercise={MODULE: CORE.encode() + b"\nLIMIT = 3\n"})
    (screened,) = asyncio.run(screen([candidate], validator.warm.suite))
    assert asyncio.run(proof.suite(at_import, screened.run, tmp_path, tree)) is None


def test_a_test_whose_outcome_depends_on_the_order_is_a_reason_to_reject(tmp_path: Path) -> None:
    code = "class Shelf:\n    books = 0\n\n    def put(self):\n        self.books = 1\n"
    fills = "    shelf = Shelf()\n    assert shelf.books == 0\n    shelf.put()\n    assert shelf.books == 1\n"
    test = f"from gauge.core import Shelf\n\n\ndef test_one():\n{fills}\n\ndef test_other():\n{fills}"
    shelves = snapshot_of(tmp_path / "gauge", {**FILES, MODULE: code, "tests/test_core.py": test})
    wrong = {MODULE: code.replace("self.books =", "type(self).books =").encode()}
    tests = HiddenTests(list(shelves.baseline.passed))
    candidate = replace(candidates(shelves)[0], exercise=wrong, hidden_tests=tests)
    validator = Validator(shelves, knobs=CheckKnobs(behaviour=False, controls=False))
    (screened,) = asyncio.run(screen([candidate], validator.warm.suite))
    with (
        scratch_tree(shelves, make_patch({MODULE: code.encode()}, wrong)) as full,
        pytest.raises(Rejected, match="test_one fails in one order") as caught,
    ):
        asyncio.run(validator.proof.suite(candidate, screened.run, full, SourceTree.of(shelves)))
    assert caught.value.reason == "v2_order"


def test_a_bug_that_a_trivial_body_corrects_is_a_reason_to_reject(tmp_path: Path) -> None:
    code = (
        'def other(value):\n    return len(value)\n\n\ndef found(value):\n    """Return nothing."""\n    value = None\n'
    )
    code += "    return value\n"
    test = "from gauge.core import found, other\n\n\ndef test_found():\n    assert found(3) is None\n\n\n"
    test += "def test_other():\n    assert other([1]) == 1\n"
    package = snapshot_of(tmp_path / "gauge", {**FILES, MODULE: code, "tests/test_core.py": test})
    wrong = {MODULE: code.replace("    value = None\n", "    value = value\n").encode()}
    tests = HiddenTests(["tests/test_core.py::test_found"])
    candidate = replace(candidates(package)[0], exercise=wrong, hidden_tests=tests)
    validator = Validator(package, knobs=CheckKnobs(behaviour=False, controls=False))
    assert isinstance(asyncio.run(validator.task(candidate)), Task)  # not asked for
    with pytest.raises(Rejected, match="'return None' passes every hidden test"):
        asyncio.run(validator.task(replace(candidate, observe_calls=True)))


SHARED = """\
import pytest

from gauge.core import label, table


@pytest.fixture(scope="module")
def numbers():
    return table(4)


def test_length(numbers):
    assert len(numbers) == 4


def test_first(numbers):
    assert numbers[0] == 0


def test_label():
    assert label(1) == "<1>"
"""


def test_visible_tests_that_ran_in_one_order_alone_run_without_the_hidden_ones(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path / "gauge", {**FILES, "tests/test_core.py": SHARED})
    length, first, _ = snapshot.baseline.passed
    assert snapshot.baseline.tests_of[f"{MODULE}::table"] == [length]
    changed = replace(
        candidates(snapshot)[0],
        exercise={MODULE: CORE.replace("range(size)", "range(size + 1)").encode()},
        hidden_tests=HiddenTests([length]),
    )
    validator = Validator(snapshot)
    proof, tree = validator.proof, SourceTree.of(snapshot)
    (screened,) = asyncio.run(screen([changed], validator.warm.suite))
    outcome = asyncio.run(proof.suite(changed, screened.run, tmp_path, tree))
    assert outcome is not None and outcome.beside == (first,)
    assert asyncio.run(proof.first_visible_failure(changed, [first], outcome)) == ""
    failing = replace(outcome, alone=TrialResult(others={first: Outcome("failed")}))
    assert asyncio.run(proof.first_visible_failure(changed, [first], failing)) == first
    assert asyncio.run(proof.first_visible_failure(changed, [], failing)) == ""


def test_only_the_removal_of_definitions_that_nothing_uses_needs_no_run(snapshot: Snapshot) -> None:
    tree = SourceTree.of(snapshot)
    path = "tests/test_core.py"
    label = 'def test_label():\n    assert label(1) == "<1>"\n\n\n'
    fixture = '@pytest.fixture(scope="module")\ndef numbers():\n    return table(4)\n\n\n'
    assert label in TESTS and fixture in TESTS
    assert only_removes(tree, {path: TESTS.replace(label, "").encode()})
    assert only_removes(tree, {path: None})
    assert not only_removes(tree, {path: TESTS.replace(fixture, "").encode()})
    assert not only_removes(tree, {path: TESTS.replace("== 4", "== 5").encode()})
    assert not only_removes(tree, {path: TESTS.replace("def test_label():\n", "").encode()})
