"""The generator ``fd_skeleton``: what loses its body, which parts are proposed, and that all tests may fail."""

from __future__ import annotations

import ast
import json

import pytest
from helpers.feature_package import FILES, write_package

from etude.errors import GeneratorError
from etude.generators import GENERATORS
from etude.generators.base import Candidate, StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.models import Task

TESTS = [f"tests/test_all.py::test_{number}" for number in range(4)]
MORE = {
    "pkg/deep/__init__.py": '"""Deeper."""\n',
    "pkg/deep/inner.py": """
        REGISTRY = []


        def register(function):
            REGISTRY.append(function)
            return function


        @register
        def inner(value):
            total = value + 1
            return total
        """,
}
MAP = {
    "pkg/scanner.py::scan": TESTS[:2],
    "pkg/scanner.py::_token": TESTS[:2],
    "pkg/printer.py::Printer.text": TESTS[2:],
    "pkg/deep/inner.py::inner": TESTS[3:],
    "pkg/deep/inner.py::register": TESTS[3:],
}


@pytest.fixture
def snapshot(project):
    return project({**FILES, **MORE}, MAP, at_import=["pkg/deep/inner.py::register"])


def candidates(snapshot, seed=0, **knobs):
    maker = GENERATORS.load("fd_skeleton")()
    return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, {"min_lines": 1, **knobs})))


def test_every_tested_body_goes_and_everything_else_stays(snapshot):
    exercise = {path: content.decode() for path, content in candidates(snapshot)[0].exercise.items()}
    assert set(exercise) == {"pkg/scanner.py", "pkg/printer.py", "pkg/deep/inner.py"}
    assert exercise["pkg/scanner.py"].count("raise NotImplementedError") == 2
    assert (
        "import re" in exercise["pkg/scanner.py"] and '"""Return the tokens of a text."""' in exercise["pkg/scanner.py"]
    )
    assert '" " * self.width' in exercise["pkg/printer.py"]  # no test runs it
    assert "REGISTRY.append(function)" in exercise["pkg/deep/inner.py"]  # it runs while the package is imported
    assert "value + 1" not in exercise["pkg/deep/inner.py"]
    for content in exercise.values():
        ast.parse(content)


def test_the_whole_package_comes_before_its_parts(snapshot):
    assert [item.entity.split("::")[1][:-7] for item in candidates(snapshot, seed=5)] == ["pkg", "pkg_deep"]
    assert candidates(snapshot, seed=5) == candidates(snapshot, seed=5)


def test_a_part_can_be_chosen(snapshot):
    (candidate,) = candidates(snapshot, part="pkg.scanner")
    assert set(candidate.exercise) == {"pkg/scanner.py"}
    with pytest.raises(GeneratorError, match="unknown part 'pkg.scaner'. Did you mean 'pkg.scanner'?"):
        candidates(snapshot, part="pkg.scaner")


@pytest.mark.parametrize("knobs", [{"min_lines": 100}, {"max_lines": 1}, {"max_share": 0.2}])
def test_knobs_limit_the_size(snapshot, knobs):
    assert candidates(snapshot, **knobs) == []


def test_a_skeleton_allows_all_tests_to_fail(snapshot):
    assert candidates(snapshot)[0].max_failing_share == 1.0
    assert Candidate.max_failing_share == 0.5


def test_the_statement_says_that_only_a_skeleton_is_left(snapshot):
    candidate = candidates(snapshot)[0]
    text = candidate.statement.render(StatementContext("pkg 1.0", candidate.hidden_tests.affected, []))
    assert text.startswith("# Implement `pkg` from its signatures\n")
    assert "only a skeleton of `pkg` is left: signatures and docstrings." in text
    assert "4 functions and methods in 3 files" in text


def test_a_skeleton_becomes_a_task_without_a_test_that_passes(tmp_path):
    source = write_package(tmp_path / "source")
    knobs = {"min_lines": 1, "behaviour": False, "controls": False, "mutants": 0}
    report = generate(
        [str(source)], generators=["fd_skeleton"], count=1, seed=0, out=tmp_path / "set", knobs=knobs, any_licence=True
    )
    assert report.tasks == 1, json.loads((tmp_path / "set/report.json").read_text())
    task = Task.model_validate_json((tmp_path / "set/tasks.jsonl").read_text())
    assert task.PASS_TO_PASS == [] and len(task.FAIL_TO_PASS) == 13
