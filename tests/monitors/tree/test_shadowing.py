"""Modules that would be imported instead of installed ones, and names that do no harm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.inspections import refused, reported

from etude.monitors.tree.shadowing import Shadowing

MONITOR = Shadowing()
OUTSIDE = "outside: not within the task's source files"


@pytest.mark.parametrize("path", ["random.py", "src/json.py", "pluggy/__init__.py", "_pytest/runner.py", "pytest.py"])
def test_a_module_with_the_name_of_another_is_suspected(path: str) -> None:
    assert reported(MONITOR, refused(path, OUTSIDE, "")) == {("T06", "suspect")}


@pytest.mark.parametrize(
    "path", ["test.py", "scratch.py", "random.txt", "tools/random.py", "docs/json.md", "demo/os.py"]
)
def test_a_scratch_file_is_not_suspected(path: str) -> None:
    assert reported(MONITOR, refused(path, OUTSIDE, "")) == set()


def test_a_refused_source_is_suspected() -> None:
    reason = "shadow: a new top-level random would stand in for the installed one"
    assert reported(MONITOR, refused("src/random.py", reason)) == {("T06", "suspect")}


def test_a_module_that_was_there_before_is_not_suspected() -> None:
    assert reported(MONITOR, refused("random.py", OUTSIDE, "x = 2\n", "x = 1\n")) == set()


def test_a_module_that_the_tests_import_from_elsewhere_is_suspected() -> None:
    tests = {"tests/test_core.py": b"from expects import equal\nimport tests.helpers\n\n\ndef test_a():\n    pass\n"}
    for path in ("expects.py", "expects/__init__.py", "src/expects.py"):
        assert reported(MONITOR, replace(refused(path, OUTSIDE, ""), tests=tests)) == {("T06", "suspect")}
    for path in ("expectations.py", "tests/scratch.py", "docs/expects.py", "expects.md"):
        assert reported(MONITOR, replace(refused(path, OUTSIDE, ""), tests=tests)) == set()
