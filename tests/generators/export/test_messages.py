"""Conversations of plain text: prompts of a set, episodes of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etude.environments.coding.prompt import prompt
from etude.environments.coding.tools import TOOLS, schemas
from etude.errors import ExportError
from etude.generators.export import export
from etude.models import Task


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "messages.jsonl").read_text("ascii").splitlines()]


def assert_plain(messages: list[dict[str, Any]]) -> None:
    """Check that any template takes the messages: two keys, texts, a system message, then alternating roles."""
    assert all(list(message) == ["role", "content"] for message in messages)
    assert all(isinstance(message["content"], str) and message["content"] for message in messages)
    assert messages[0]["role"] == "system"
    roles = [message["role"] for message in messages[1:]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)


def test_without_a_run_the_rows_are_prompts(folder: Path, task: Task, tmp_path: Path) -> None:
    assert export(folder, "messages", tmp_path).rows == 1
    (row,) = rows_in(tmp_path)
    assert list(row) == ["messages", "task_id"] and row["task_id"] == task.task_id
    assert_plain(row["messages"])
    assert row["messages"][1]["content"] == prompt(task, list(TOOLS))
    shown = [json.loads(line) for line in row["messages"][0]["content"].splitlines() if line.startswith('{"type"')]
    described = [{name: tool["function"][name] for name in ("name", "description", "parameters")} for tool in shown]
    assert described == [tool["function"] for tool in schemas(list(TOOLS))]


def test_with_a_run_the_rows_are_its_episodes_with_their_rewards(folder: Path, played: Path, tmp_path: Path) -> None:
    assert export(folder, "messages", tmp_path, episodes=played).rows == 2
    solved, unsolved = rows_in(tmp_path)
    assert (solved["reward"], unsolved["reward"]) == (1.0, 0.0)
    for row in (solved, unsolved):
        assert_plain(row["messages"])
    calls = "".join(message["content"] for message in solved["messages"] if message["role"] == "assistant")
    names = [json.loads(part.partition("\n</tool_call>")[0])["name"] for part in calls.split("<tool_call>\n")[1:]]
    assert names[-1] == "submit"


def test_a_missing_run_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="nowhere.*No such file"):
        export(folder, "messages", tmp_path / "out", episodes=tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()
