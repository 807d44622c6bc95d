"""The generator ``fd_feature``: which definitions go together, in which order, and what the statement says."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

import pytest
from helpers.feature_package import FILES, write_package

from etude.generators import GENERATORS
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.deletion.joint import feature
from etude.generators.library.deletion.joint.proposal import without_empty_leads
from etude.models import Task

SMALL = {"min_lines": 1, "min_entities": 2, "min_tests": 1}
PARSING = [f"tests/test_parsing.py::test_{name}" for name in ("numbers", "names", "rejects_a_sign")]
PRINTING = ["tests/test_printing.py::TestPrinter::test_indent", "tests/test_printing.py::TestPrinter::test_width"]
OTHER = [f"tests/test_tree.py::test_{name}" for name in ("leaves", "depth", "empty", "copy", "walk", "size")]
MAP = {
    "pkg/scanner.py::scan": PARSING,
    "pkg/scanner.py::_token": PARSING,
    "pkg/parser.py::Parser.__init__": PARSING,
    "pkg/parser.py::Parser.parse": PARSING,
    "pkg/parser.py::Parser._expect": PARSING[:1],
    "pkg/printer.py::Printer.text": PRINTING,
    "pkg/printer.py::Printer.indented": PRINTING[:1],
    "pkg/tree.py::leaf": [*PARSING, *PRINTING, *OTHER],
    "pkg/tree.py::depth": OTHER[:2],
}


@pytest.fixture
def snapshot(project):
    return project(FILES, MAP, passed=OTHER)


def candidates(snapshot, seed=0, **knobs):
    maker = GENERATORS.load("fd_feature")()
    return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, {**SMALL, **knobs})))


def named(snapshot, name, **knobs):
    return next(item for item in candidates(snapshot, **knobs) if f"::{name}" in item.entity)


def rendered(candidate):
    return candidate.statement.render(StatementContext("pkg 1.0", candidate.hidden_tests.affected, []))


def test_a_cluster_is_everything_that_its_tests_need_and_no_other_test_does(snapshot):
    parsing = named(snapshot, "parsing")
    assert parsing.hidden_tests.affected == sorted(PARSING)
    assert set(parsing.exercise) == {"pkg/scanner.py", "pkg/parser.py"}
    assert parsing.features["entities"] == 5 and parsing.features["source_files"] == 2
    printing = named(snapshot, "printer")
    assert printing.hidden_tests.affected == sorted(PRINTING)
    assert set(printing.exercise) == {"pkg/printer.py"}


def test_definitions_lose_their_bodies_and_private_helpers_go_in_mode_stub(snapshot):
    exercise = {path: content.decode() for path, content in named(snapshot, "parsing").exercise.items()}
    assert "_token" not in exercise["pkg/scanner.py"] and "import re" not in exercise["pkg/scanner.py"]
    assert "def scan(text):" in exercise["pkg/scanner.py"]
    assert "_expect" not in exercise["pkg/parser.py"] and "def parse(self):" in exercise["pkg/parser.py"]
    assert exercise["pkg/parser.py"].count("raise NotImplementedError") == 2
    for content in exercise.values():
        ast.parse(content)


def test_names_go_too_in_mode_remove(snapshot):
    candidate = named(snapshot, "parsing", mode="remove")
    exercise = {path: content.decode() for path, content in candidate.exercise.items()}
    assert "scan" not in exercise["pkg/scanner.py"]
    assert "def parse" not in exercise["pkg/parser.py"]
    assert exercise["pkg/__init__.py"].strip() == '"""A small package."""'
    text = rendered(candidate)
    assert "- `pkg.scan`, imported from `pkg.scanner`" in text and "others were removed with their names" in text
    assert "Callers to restore" not in text  # the only one is itself without its body
    for content in [*candidate.exercise.values(), *candidate.hidden_tests.rewritten.values()]:
        ast.parse(content)


def test_helpers_stay_when_the_knob_says_so(snapshot):
    exercise = named(snapshot, "parsing", keep_helpers=True).exercise
    assert b"def _token" in exercise["pkg/scanner.py"] and b"def _expect" in exercise["pkg/parser.py"]


@pytest.mark.parametrize(
    "knobs",
    [{"min_files": 3}, {"min_lines": 60}, {"max_lines": 1}, {"max_share": 0.05}, {"min_tests": 8}, {"min_entities": 9}],
)
def test_knobs_limit_the_size_of_a_feature(snapshot, knobs):
    assert candidates(snapshot, **knobs) == []


def test_small_features_are_proposed_on_request_or_when_there_are_no_large_ones(snapshot, monkeypatch):
    assert len(candidates(snapshot)) == 2  # both are small
    monkeypatch.setattr(feature, "LARGE_LINES", 10)
    (large,) = candidates(snapshot)
    assert large.features["loc_removed"] >= 10 and "::parsing" in large.entity
    both = [item.entity for item in candidates(snapshot, small=True)]
    assert len(both) == 2 and both[0] == large.entity


def test_examples_of_deleted_code_leave_the_documents(project):
    text = (
        "Use\n\n.. code-block:: python\n\n    scan('a')\n\n    x = 1\n\nor\n\n.. code-block:: python\n\n    depth(1)\n"
    )
    snapshot = project({**FILES, "docs/use.rst": text}, MAP, passed=OTHER)
    redacted = named(snapshot, "parsing").exercise["docs/use.rst"]
    assert redacted == b"Use\n\nor\n\n.. code-block:: python\n\n    depth(1)\n"
    assert "docs/use.rst" not in named(snapshot, "parsing", docs="keep").exercise


def test_two_candidates_have_little_in_common(snapshot):
    entities = [item.entity for item in candidates(snapshot)]
    assert len(entities) == len(set(entities)) == 2
    similar = {"min_entities": 1, "max_overlap": 0.99}
    assert len(candidates(snapshot, **similar)) > len(candidates(snapshot, min_entities=1, max_overlap=0.0))


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = {seed: [item.entity for item in candidates(snapshot, seed)] for seed in range(8)}
    assert orders[3] == [item.entity for item in candidates(snapshot, 3)]
    assert len({tuple(order) for order in orders.values()}) == 2


def test_the_statement_names_entry_points_internals_places_and_errors(snapshot):
    text = rendered(named(snapshot, "parsing", keep_helpers=True))
    assert text.startswith("# Implement the feature “parsing”\n")
    assert "- `pkg/scanner.py`: 2 definitions. Cut a text into tokens." in text
    entry_points, internals = text.split("## Internals")
    assert "def parse(self)" in entry_points and "> Return the numbers and names." in entry_points
    assert "`pkg.scanner._token`: `def _token(text)`" in internals and "called by `scan`" in internals
    assert "`ValueError('expected a number')`" in internals
    assert "parsing: names; numbers; rejects a sign" in internals


@pytest.mark.parametrize(("mode", "state"), [("stub", "Its body is missing: calling it raises"), ("remove", "It was")])
def test_the_statement_of_one_definition_speaks_of_one(snapshot, mode, state):
    candidate = named(snapshot, "printer", mode=mode)
    (part, *_) = [*candidate.statement.entry_points, *candidate.statement.internals]
    one = replace(candidate.statement, entry_points=[part], internals=[], imports=1)
    text = one.render(StatementContext("pkg 1.0", PRINTING, []))
    assert "It is made of one method in one file." in text and state in text
    assert "Write it so that it behaves as described here. Imports that only it needed are gone too" in text
    assert "## Entry point\n\nTests use it directly." in text and "them" not in text
    assert "## Missing definition\n" in replace(one, entry_points=[], internals=[part]).render(
        StatementContext("pkg 1.0", PRINTING, [])
    )


def test_the_statement_says_plainly_what_is_missing(snapshot):
    assert "is missing: the functions and methods that only its tests run." in rendered(named(snapshot, "parsing"))


def test_helpers_that_are_gone_are_not_named(snapshot):
    candidate = named(snapshot, "parsing")
    assert "_token" not in rendered(candidate) and "Private helpers and imports" in rendered(candidate)
    assert {item.name for item in candidate.interface} == {
        "pkg.scanner.scan",
        "pkg.parser.Parser.__init__",
        "pkg.parser.Parser.parse",
    }


def test_probes_give_every_definition_the_same_trivial_body(snapshot):
    probes = named(snapshot, "parsing").probes
    assert {"none", "empty", "list"} <= probes.keys()
    assert probes["none"]["pkg/scanner.py"].count(b"return None") == 1
    for files in probes.values():
        assert not any(b"NotImplementedError" in content for content in files.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Walk.\n\nExample:\n\nCreate a walker:\n\nThis is made for walking:", "Walk."),
        ("Walk. Twice is an error:", "Walk. Twice is an error."),
        ("Walk.\n\nReturns:\n    Nodes.", "Walk.\n\nReturns:\n    Nodes."),
        ("Use one of:\n\n- this\n- that", "Use one of:\n\n- this\n- that"),
    ],
)
def test_a_docstring_does_not_announce_examples_that_are_gone(text, expected):
    assert without_empty_leads(text) == expected


def test_features_become_tasks(tmp_path):
    source = write_package(tmp_path / "source")
    knobs = {**SMALL, "behaviour": False, "controls": False, "mutants": 0}
    report = generate(
        [str(source)], generators=["fd_feature"], count=2, seed=0, out=tmp_path / "set", knobs=knobs, any_licence=True
    )
    assert (report.candidates, report.tasks) == (2, 2), json.loads((tmp_path / "set/report.json").read_text())
    tasks = [Task.model_validate_json(line) for line in (tmp_path / "set/tasks.jsonl").read_text().splitlines()]
    for task in tasks:
        assert task.FAIL_TO_PASS and task.PASS_TO_PASS and task.features["entities"] >= 2
    assert max(task.features["source_files"] for task in tasks) == 2
