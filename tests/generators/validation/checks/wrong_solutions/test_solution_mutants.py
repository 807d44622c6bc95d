"""Mutants of the examined functions: small mistakes, and versions that leave something out."""

from __future__ import annotations

import ast
import base64
from pathlib import Path

import pytest
from helpers.paths import DATA

from etude.environments.grading.out_of_process.judging.examination import Examination
from etude.environments.grading.own_solution import own_solution
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import materials
from etude.generators.generate import generate
from etude.generators.python.source import SyntaxSpans
from etude.generators.validation.checks.wrong_solutions.partial_versions import partial_versions
from etude.generators.validation.checks.wrong_solutions.solution_mutants import MOST, solution_mutants
from etude.models import FileChange, Task


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    out: Path = tmp_path_factory.mktemp("set")
    knobs = {"min_lines": 3, "mutants": 0, "behaviour": False}
    generate([str(DATA / "scales")], generators=["fd_function"], count=1, seed=7, out=out, knobs=knobs)
    return next(iter(TaskSet.load(out)))


def texts(changes: list[FileChange]) -> dict[str, str]:
    return {item.path: base64.b64decode(item.content or "").decode() for item in changes}


def test_each_mutant_compiles_and_changes_one_file_in_the_examined_function(task: Task) -> None:
    trees = materials(task)
    examination, solution = Examination(task, trees), own_solution(task, trees)
    mutants, further = solution_mutants(examination, solution)
    assert (mutants, further) == solution_mutants(examination, solution), "drawn by the task's id"
    assert 3 < len(mutants) <= MOST + 1
    right = texts(solution)
    name = examination.examined.targets[0].rpartition(":")[2].rpartition(".")[2]
    contents = set()
    for changes in mutants:
        wrong = texts(changes)
        changed = [path for path in right if wrong[path] != right[path]]
        assert wrong.keys() == right.keys() and len(changed) == 1
        functions = [
            {node.name: ast.dump(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
            for text in (right[changed[0]], wrong[changed[0]])
        ]
        assert [one for one in functions[0] if functions[0][one] != functions[1].get(one)] == [name]
        contents.add(wrong[changed[0]])
    assert len(contents) == len(mutants)


LOOSE = b'''def pick(names, name, *, strict=False, most=3):
    """Return names."""
    found = []
    for other in names:
        if other == name and strict is False and len(found) < most:
            found.append(other.replace("-", "_"))
    return [item for item in found if item in ("a", "b", "c")]
'''


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("loose comparison", "(str(other).lower() == str(name).lower())"),
        ("ignored option", "(False) is False"),
        ("dropped element", '("a", "b", )'),
        ("first alone", "list(names)[:1]"),
        ("first alone", '(other.replace("-", "_", 1))'),
        ("dropped condition", "((other == name) and (len(found) < most))"),
    ],
)
def test_a_version_does_less(kind: str, text: str) -> None:
    function = ast.parse(LOOSE).body[0]
    assert isinstance(function, ast.FunctionDef)
    versions = list(partial_versions(SyntaxSpans(LOOSE), function))
    assert any(text in version.source.decode() for version in versions if version.operator == kind)
    assert all(version.changes_code() for version in versions)
