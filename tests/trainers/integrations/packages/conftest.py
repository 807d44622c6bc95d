"""Fixtures: running servers with real tasks, a scripted policy, and verifiers in separate virtual environments."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import adapter_bench, adapter_policy
from helpers.paths import DATA

from etude.client import connect
from etude.environments.drill.tasks import DrillTasks
from etude.generators.export import export

HERE = Path(__file__).parent
SAMPLE = DATA / "scales"
VERSIONS = ["0.3.1", "0.4.0"]
MISTAKES = ["tool_not_found", "malformed_call"]


def load(name: str, file: Path) -> ModuleType:
    """Load a module from its file under a given name: pytest's importlib mode has no other way to share one."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def policy() -> ModuleType:
    return adapter_policy


@pytest.fixture(scope="session")
def benches() -> ModuleType:
    return adapter_bench


@pytest.fixture(scope="module")
def rollout(root: Path) -> Iterator[ModuleType]:
    """Load the adapter's conversions, which need no verifiers, under a name that exists only during the tests."""
    yield load("adapter_rollout", root / "trainers/integrations/packages/verifiers/etude_verifiers/rollout.py")
    del sys.modules["adapter_rollout"]


@contextlib.contextmanager
def serving(**variables: str) -> Iterator[str]:
    """Run `etude serve` in another process, and yield its address."""
    command = [sys.executable, "-m", "etude.server.app"]
    environment = {**os.environ, "PORT": "0", "PYTHONUNBUFFERED": "1", "ETUDE_DRILL_SECRET": "", **variables}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line
        yield line.removeprefix("serving ").strip()
        process.terminate()


@pytest.fixture(scope="session")
def coding(tmp_path_factory: pytest.TempPathFactory, policy: Any, benches: Any) -> Iterator[Any]:
    """Serve two exercises made from a sample package."""
    from etude.generators.generate import generate

    tasks = tmp_path_factory.mktemp("tasks")
    generate([str(SAMPLE)], generators=["all"], count=2, seed=0, out=tasks)
    solvable = policy.read_tasks(tasks / "tasks.jsonl")
    (rows,) = export(tasks, "nemo-gym", tmp_path_factory.mktemp("rows")).files
    with serving(ETUDE_TASKS=str(tasks)) as url:
        solutions = f', solutions = "{tasks}"'
        yield benches.Ground("coding", url, Path(rows), solvable, [*MISTAKES, "file_not_found"], task_options=solutions)


@pytest.fixture(scope="session")
def drill(tmp_path_factory: pytest.TempPathFactory, benches: Any) -> Iterator[Any]:
    """Serve the first four drills of a split, whose tools differ."""
    drills, rows = DrillTasks(secret=""), tmp_path_factory.mktemp("rows") / "drills.jsonl"
    with serving(ETUDE_ENV="drill", ETUDE_TASKS="") as url:
        with connect(url) as client:
            drawn = client.rows("eval")[:4]
        rows.write_text("".join(json.dumps(row) + "\n" for row in drawn))
        played = [drills.drill(row["task_id"]) for row in drawn]
        solvable = [
            {"problem_statement": one.statement, "calls": [*one.solution(), ("submit", {"answer": one.answer})]}
            for one in played
        ]
        yield benches.Ground("drill", url, rows, solvable, [*MISTAKES, "invalid_args"], 'split = "eval"\n')


@pytest.fixture(scope="session", params=["coding", "drill"])
def ground(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def environment_with(
    tmp_path_factory: pytest.TempPathFactory, checkout_in: Callable[[Path], Path]
) -> Callable[[str], Path]:
    """Return a function that makes a virtual environment with a version of verifiers, etude and its adapter.

    It returns the environment's ``bin`` folder. openenv is not installed.
    """
    environments: dict[str, Path] = {}

    def make(version: str) -> Path:
        if version not in environments:
            folder = tmp_path_factory.mktemp("venv")
            subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
            source = checkout_in(folder / "etude")
            requirements = [f"verifiers=={version}", "uv", source, source / "trainers/integrations/packages/verifiers"]
            pip = [folder / "venv/bin/python", "-m", "pip", "install", "-q", *requirements]
            subprocess.run(pip, check=True, capture_output=True)
            environments[version] = folder / "venv" / "bin"
        return environments[version]

    return make


@pytest.fixture(params=VERSIONS)
def bench(
    request: pytest.FixtureRequest,
    environment_with: Callable[[str], Path],
    ground: Any,
    policy: Any,
    benches: Any,
    tmp_path: Path,
) -> Iterator[Any]:
    with policy.Policy(ground.solvable, tmp_path / "requests.jsonl") as endpoint:
        yield benches.Bench(request.param, environment_with(request.param), ground, endpoint, tmp_path)
