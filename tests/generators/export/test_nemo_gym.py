"""NeMo Gym rows: public parts only, the prompt and tools of a session, and the task that seeds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etude.environments.coding.prompt import prompt
from etude.environments.coding.tools import TOOLS, schemas
from etude.environments.tasks.task_set import write_tasks
from etude.errors import ExportError
from etude.generators.export import export
from etude.models import Task


@pytest.fixture(scope="module")
def line(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("out")
    assert export(folder, "nemo-gym", out).files == [str(out / "nemo-gym.jsonl")]
    (line,) = (out / "nemo-gym.jsonl").read_text().splitlines()
    return line


@pytest.fixture(scope="module")
def row(line: str) -> dict[str, Any]:
    return json.loads(line)


def test_a_row_shows_the_policy_the_prompt_and_tools_of_a_session(row: dict[str, Any], task: Task) -> None:
    params = row["responses_create_params"]
    assert params["input"] == [{"role": "user", "content": prompt(task, list(TOOLS))}]
    shown = [{key: tool[key] for key in ("name", "description", "parameters")} for tool in params["tools"]]
    assert shown == [tool["function"] for tool in schemas(list(TOOLS))]
    assert {tool["type"] for tool in params["tools"]} == {"function"}


def test_a_row_names_its_task_and_its_agent(row: dict[str, Any], task: Task, root: Path) -> None:
    assert row["task_id"] == task.task_id
    config = (root / "trainers/integrations/packages/nemo_gym/resources_servers/etude/configs/etude.yaml").read_text()
    assert f"\n{row['agent_ref']['name']}:\n  {row['agent_ref']['type']}:\n" in config


def test_a_row_has_no_secret(line: str, task: Task) -> None:
    for secret in (task.patch, task.test_patch, task.workspace_patch, *task.FAIL_TO_PASS, *task.protected_paths):
        assert secret and json.dumps(secret)[1:-1] not in line
    assert "snapshot" not in line and task.base_commit not in line


def test_rows_refuse_a_task_that_its_environment_does_not_know(task: Task, tmp_path: Path) -> None:
    write_tasks(tmp_path, [task.model_copy(update={"environment": "drill"})])
    with pytest.raises(ExportError, match="has no row: unknown drill"):
        export(tmp_path, "nemo-gym", tmp_path / "out")
    assert not (tmp_path / "out").exists()
