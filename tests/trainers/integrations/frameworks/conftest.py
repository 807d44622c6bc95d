"""Fixtures: the recipes of docs/frameworks.md, and for each kind of task a server and a policy that solves it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import adapter_policy, framework_recipes
from helpers.paths import DATA

from etude.client import connect
from etude.environments.drill.tasks import DrillTasks


@dataclass(frozen=True)
class World:
    """A running server, and the policy that errs three times and then solves its tasks."""

    url: str
    policy: adapter_policy.Policy


@contextmanager
def serving(log: Path, solvable: Sequence[Mapping[str, Any]], *options: str) -> Iterator[World]:
    command = [sys.executable, "-u", "-m", "etude.cli", "serve", "--port", "0", *options]
    environment = {**os.environ, "ETUDE_DRILL_SECRET": ""}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line
        with adapter_policy.Policy([dict(task) for task in solvable], log) as policy:
            yield World(line.removeprefix("serving ").strip(), policy)
        process.terminate()


@pytest.fixture(scope="session")
def drills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Serve drills; the policy knows the first four of the split ``train``."""
    tasks = DrillTasks(secret="")
    first = [tasks.drill(task.task_id) for task in tasks.list_tasks("train")[:4]]
    solvable = [
        {"problem_statement": one.statement, "calls": [*one.solution(), ("submit", {"answer": one.answer})]}
        for one in first
    ]
    with serving(tmp_path_factory.mktemp("drills") / "requests.jsonl", solvable, "--env", "drill") as world:
        yield world


@pytest.fixture(scope="session")
def coding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Serve one exercise that is made from a sample package; the policy knows its patch."""
    from etude.generators.generate import generate

    folder = tmp_path_factory.mktemp("tasks")
    generate([str(DATA / "scales")], generators=["fd_function"], count=1, seed=0, out=folder)
    solvable = adapter_policy.read_tasks(folder / "tasks.jsonl")
    log = tmp_path_factory.mktemp("coding") / "requests.jsonl"
    with serving(log, solvable, "--tasks", str(folder)) as world, connect(world.url) as client:
        assert client.tasks("train"), "the recipes play the split train"
        yield world


@pytest.fixture(scope="session")
def helper() -> ModuleType:
    return framework_recipes


@pytest.fixture(scope="session")
def recipes(root: Path) -> dict[str, Any]:
    """Return the recipes of the document, by the name of the framework."""
    return dict(framework_recipes.recipes(root / "docs" / "frameworks.md"))


@pytest.fixture(scope="session")
def with_package(root: Path) -> dict[str, Any]:
    """Return the recipes that go on with the framework's own package."""
    return dict(framework_recipes.with_package(root / "docs" / "frameworks.md"))
