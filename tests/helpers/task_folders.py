"""Folders of invented task sets and runs, for tests that play nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from etude.environments.tasks.task_set import write_tasks
from etude.models import Episode, ErrorTurn, GeneratorRef, Hint, InterfaceItem, Reward, SnapshotRef, Task, Turn
from etude.models import ToolMessage as Answer

ARCHIVES = (b"first archive" * 4000, b"second archive" * 4000)


def task(name: str, **fields: Any) -> Task:
    about: dict[str, Any] = {
        "generator": GeneratorRef(name="fd_function", version="2", seed=7, knobs={"min_lines": 3, "docs": "keep"}),
        "problem_statement": f"Write {name} again.\nIt says: “quoted”, \\n and {{braces}}.",
        "interface": [InterfaceItem(name=f"pkg.{name}", kind="function", signature="(a, b=1)")],
        "patch": "--- a/x.py\n+++ b/x.py\n",
        "FAIL_TO_PASS": [f"tests/test_{name}.py::test_a[x-y]"],
        "repo": "pkg",
        "base_commit": "0" * 40,
        "version": "1.0",
        "licence": "MIT",
        "features": {"lines": 3, "share": 0.5, "hard": True, "kind": "loop"},
    }
    return Task(task_id=name, **{**about, **fields})


def task_folder(folder: Path, *, names: tuple[str, ...] = ("one", "two", "three"), packed: bool = True) -> Path:
    """Write a set of tasks in two splits; with ``packed`` two of them name archives, which are in ``blobs``."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = []
    for number, name in enumerate(names):
        more: dict[str, Any] = {"split": "eval" if number == 0 else "train"}
        if packed and number < len(ARCHIVES):
            sha256 = hashlib.sha256(ARCHIVES[number]).hexdigest()
            (folder / "blobs").mkdir(exist_ok=True)
            (folder / "blobs" / f"{sha256}.tar.xz").write_bytes(ARCHIVES[number])
            more["snapshot"] = SnapshotRef(digest=f"{number:064d}", recipe={"python": "3.11", "locked": ["a==1"]})
            more["blobs"] = {"snapshot": sha256}
        tasks.append(task(name, **more))
    write_tasks(folder, tasks)
    report = {"candidates": 4, "yield": 0.75, "rejected": {"v1_no_test_fails": 1}, "request": {"seed": 7}}
    (folder / "report.json").write_text(json.dumps(report) + "\n")
    return folder


def episode(number: int, reward: float = 1.0) -> Episode:
    """Return an episode of four turns: one that cannot be parsed, one that erred, one call, and the end."""
    hint = Hint(text="The tool is named read_file.", template="nearest_tool")
    errors = [
        ErrorTurn(turn=0, kind="malformed_call", message="not JSON"),
        ErrorTurn(turn=1, call_id="c1", kind="tool_not_found", tool="raed", message="no such tool", hints=[hint]),
    ]
    turns = [
        Turn(action={"tool_calls": "{"}, messages=[Answer(role="user", content="error malformed_call: not JSON")]),
        Turn(action=call(1, "raed", {"path": "a.py"}), messages=[answer(1, "error tool_not_found: no tool 'raed'")]),
        Turn(action=call(2, "read_file", {"path": "a.py", "start_line": 2}), messages=[answer(2, "ok\nx = 1")]),
        Turn(action=call(3, "submit", {}), messages=[answer(3, "ok\nsubmitted")]),
    ]
    tools = [{"type": "function", "function": {"name": "read_file", "description": "Read.", "parameters": {}}}]
    return Episode(
        episode_id=f"e{number}",
        task_id=f"t{number % 2}",
        prompt=f"Repair module {number}.",
        tools=tools,
        turns=turns,
        error_turns=errors,
        reward=Reward(value=reward, components={"fail_to_pass": reward}),
        end="submit",
    )


def call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"text": f"Now {name}.", "tool_calls": [{"id": f"c{number}", "name": name, "arguments": arguments}]}


def answer(number: int, content: str) -> Answer:
    return Answer(tool_call_id=f"c{number}", name="tool", content=content)


def run_folder(folder: Path, *, solved: int = 3, unsolved: int = 2) -> Path:
    """Write a run of invented episodes."""
    folder.mkdir(parents=True, exist_ok=True)
    rewards = [1.0] * solved + [0.0] * unsolved
    about = {"agent": "oracle", "settings": {"annotate": "state"}, "usage": {}}
    rows = [
        {**about, "sample": number, **episode(number, reward).model_dump(mode="json")}
        for number, reward in enumerate(rewards)
    ]
    lines = [json.dumps(row) for row in rows]
    (folder / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    return folder
