"""The records and the wire are frozen: golden files hold one of each, and each one's JSON schema.

A field added on purpose: ``ETUDE_WRITE_GOLDEN=1 pytest tests/test_models.py`` writes the schemas again, and the diff of
``tests/golden`` shows what changed. The records themselves are written by hand.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from etude import models

GOLDEN = Path(__file__).parent / "golden"
RECORDS: dict[str, type[BaseModel]] = {
    "task": models.Task,
    "task_answer": models.Task,
    "public_task": models.PublicTask,
    "episode": models.Episode,
    "error_turn": models.ErrorTurn,
    "hint": models.Hint,
    "finding": models.Finding,
    "reward": models.Reward,
    "action_tool_calls": models.Action,
    "action_openai": models.Action,
    "action_short": models.Action,
    "observation_reset": models.Observation,
    "observation_step": models.Observation,
    "state": models.State,
}
SECRET = set(models.Task.model_fields) - set(models.PublicTask.model_fields)


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def schema_of(model: type[BaseModel]) -> Any:
    """Return the JSON schema without prose, which may be reworded."""

    def bare(node: Any, is_names: bool = False) -> Any:
        if isinstance(node, list):
            return [bare(item) for item in node]
        if not isinstance(node, dict):
            return node
        stored = {key: value for key, value in node.items() if is_names or key not in ("title", "description")}
        return {key: bare(value, key in ("properties", "$defs") and not is_names) for key, value in stored.items()}

    return bare(model.model_json_schema())


@pytest.mark.parametrize("name", RECORDS)
def test_a_golden_record_loads_and_dumps_as_it_was(name: str) -> None:
    record = RECORDS[name].model_validate(golden(name))
    assert record.model_dump(mode="json") == golden(name)
    assert RECORDS[name].model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("model", sorted(set(RECORDS.values()), key=lambda model: model.__name__))
def test_a_schema_is_frozen(model: type[BaseModel]) -> None:
    path = GOLDEN / "schemas" / f"{model.__name__}.json"
    if os.environ.get("ETUDE_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(schema_of(model), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    frozen = json.loads(path.read_text(encoding="utf-8"))
    assert schema_of(model) == frozen, f"{model.__name__} changed; if on purpose, see this file's first lines"


@pytest.mark.parametrize("name", ["task", "episode", "error_turn", "hint", "finding", "reward"])
def test_the_golden_records_exercise_every_field(name: str) -> None:
    assert set(golden(name)) == set(RECORDS[name].model_fields)


@pytest.mark.parametrize("name", ["task", "public_task", "episode", "error_turn", "hint", "finding", "reward"])
def test_a_stored_record_refuses_an_unknown_field(name: str) -> None:
    with pytest.raises(ValidationError, match="surprise"):
        RECORDS[name].model_validate({**golden(name), "surprise": 1})


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"text": None, "tool_calls": "bash"},
        {"tool_calls": [1, None, {"name": 3}], "anything": {"else": []}},
        {"text": ["a", "list"], "tool": 5, "arguments": "{broken"},
    ],
)
def test_any_object_is_an_action(sent: dict[str, Any]) -> None:
    stored = models.Action.model_validate(sent).model_dump(mode="json")
    assert {key: stored[key] for key in sent} == sent


def test_public_carries_no_secret_field() -> None:
    task = models.Task.model_validate(golden("task"))
    assert task.public().model_dump(mode="json") == golden("public_task")
    assert {"patch", "test_patch", "workspace_patch", "FAIL_TO_PASS", "PASS_TO_PASS", "generator", "blobs"} <= SECRET


def test_public_carries_no_secret_value() -> None:
    """Put a canary into every string of a secret field, and look for it in the public part."""
    canaries: list[str] = []

    def plant(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plant(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plant(item) for item in value]
        if isinstance(value, str):
            canaries.append(f"canary-{len(canaries)}-secret")
            return canaries[-1]
        return value

    row = golden("task")
    row |= {name: plant(row[name]) for name in SECRET - {"instance_id", "assurance"}}
    row["verifier"]["kind"] = "pytest"
    text = models.Task.model_validate(row).public().model_dump_json()
    assert len(canaries) > 15
    assert [canary for canary in canaries if canary in text] == []


def test_a_swe_bench_row_with_lists_as_strings_loads() -> None:
    row = golden("task") | {"FAIL_TO_PASS": '["a::b"]', "PASS_TO_PASS": "[]"}
    task = models.Task.model_validate(row)
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == (["a::b"], [])


def test_instance_id_is_task_id() -> None:
    row = golden("task")
    assert models.Task.model_validate(row | {"instance_id": ""}).instance_id == row["task_id"]
    with pytest.raises(ValidationError, match="differs from task_id"):
        models.Task.model_validate(row | {"instance_id": "another"})


def test_a_row_of_a_newer_schema_says_upgrade() -> None:
    with pytest.raises(ValidationError, match="upgrade etude"):
        models.Task.model_validate(golden("task") | {"schema_version": models.SCHEMA_VERSION + 1})


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_reward_lies_between_0_and_1(value: float) -> None:
    with pytest.raises(ValidationError):
        models.Reward(value=value)


def test_a_grade_can_be_stored_whatever_ended_the_run() -> None:
    grade = models.Grade(reward=models.Reward(value=0.0, components={}), end_cause="SystemExit: \ud800")
    assert models.Grade.model_validate_json(grade.model_dump_json()).end_cause == "SystemExit: ?"
