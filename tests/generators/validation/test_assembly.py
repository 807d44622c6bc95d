"""The row of a candidate."""

from __future__ import annotations

from pathlib import Path

from etude.generators.base import Candidate, HiddenTests
from etude.generators.library.mutation.bug_report import BugReport
from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.assembly import source_paths
from etude.models import GeneratorRef


def test_a_solution_restores_only_files_of_the_package(tmp_path: Path) -> None:
    tree = SourceTree(tmp_path, ("src/pkg",), ("src",), frozenset())
    changed = {"src/pkg/core.py": b"", "src/pkg/core.pyi": b"", "docs/guide.rst": b"", "examples/app/cli.py": None}
    candidate = Candidate(
        entity="src/pkg/core.py::run",
        generator=GeneratorRef(name="fd_function", version="1", seed=0),
        exercise=changed,
        hidden_tests=HiddenTests([]),
        statement=BugReport("hidden"),
    )
    assert source_paths(tree, candidate) == ["src/pkg/core.py", "src/pkg/core.pyi"]
