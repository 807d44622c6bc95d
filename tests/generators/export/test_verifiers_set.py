"""Installable tasksets of verifiers: the files, and verifiers' own check of every task in containers."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import pytest
from helpers.containers import base_image, require_docker
from helpers.tool_environments import make_environment, run

from etude.errors import ExportError
from etude.generators.export import export
from etude.models import Task


def test_a_package_holds_task_folders_and_the_module_that_loads_them(
    folder: Path, task: Task, tmp_path: Path, root: Path
) -> None:
    options = {"base_image": "base:1", "python": "image", "package": "my_tasks"}
    assert export(folder, "verifiers", tmp_path, options=options).rows == 1
    made = tmp_path / "verifiers"
    project = tomllib.loads((made / "pyproject.toml").read_text())
    assert project["project"]["name"] == "my-tasks" and project["tool"]["setuptools"]["packages"] == ["my_tasks"]
    config = tomllib.loads((made / "my_tasks" / "tasks" / task.task_id / "task.toml").read_text("utf-8"))
    # verifiers builds no image, so that each task names one.
    assert config["environment"]["docker_image"] == f"localhost/etude:{task.task_id}"
    source = (root / "generators/export/verifiers_set/taskset.py").read_text()
    assert (made / "my_tasks" / "__init__.py").read_text() == source
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(ast.parse(source)))


def test_a_wrong_name_of_the_package_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="option package must be the name of a module, .*, got 'my-tasks'"):
        export(folder, "verifiers", tmp_path, options={"package": "my-tasks"})
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def package(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a package and make its images."""
    require_docker()
    out = tmp_path_factory.mktemp("package")
    options = {"base_image": base_image(out), "network": "public", "image": "localhost/etude-test-verifiers"}
    export(folder, "verifiers", out, options=options)
    run(["bash", out / "verifiers" / "etude_tasks" / "tasks" / "build_images.sh"], out, DOCKER_BUILDKIT="0")
    return out / "verifiers"


@pytest.mark.slow
@pytest.mark.parametrize(("version", "command"), [("0.3.1", "validate"), ("0.4.0", "vf-validate")])
def test_verifiers_validates_every_task_in_containers(
    version: str, command: str, package: Path, tmp_path: Path
) -> None:
    tools = make_environment(tmp_path, [f"verifiers[harbor]=={version}", str(package)], "3.12")
    # The other check of 0.4 grades an untouched task, and refuses a task with a container for its verifier.
    chosen = ["--only-gold", "True"] if version == "0.4.0" else []
    chosen += ["--runtime.type", "docker", "--rich", "False", "-o", str(tmp_path / "runs"), "--run.dir", "run"]
    run([tools / command, "etude-tasks", *chosen], tmp_path)
    summary = json.loads((tmp_path / "runs" / "run" / "summary.json").read_text())
    assert summary["outcomes"]["valid"] == summary["total"] == 1
