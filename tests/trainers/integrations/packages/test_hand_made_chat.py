"""Tests of ``rollouts.rollout`` without any framework: no torch, no transformers, a chat of twenty lines."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etude.client import Client
from etude.environments.drill.tasks import DrillTasks
from etude.trainers.rollouts.rollout import Rollout, Sample, Written, rollout

TASKS = DrillTasks(["choose"], level=1)
TASK = TASKS.list_tasks("train")[0].task_id


class Letters:
    """Policy whose ids are character codes; it writes the given ``turns``."""

    def __init__(self, turns: Sequence[Mapping[str, Any]]) -> None:
        self.turns = [json.dumps(turn) for turn in turns]

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        text = json.dumps([messages, tools])
        return Written([*map(ord, text), ord(">")], len(text))

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        return Sample([*map(ord, self.turns.pop(0))][:room])

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        return dict(json.loads("".join(map(chr, ids))))

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        text = json.dumps(messages)
        return Written([*map(ord, text), ord(">")], len(text))


def play(url: str, turns: Sequence[Mapping[str, Any]]) -> Rollout:
    async def one() -> Rollout:
        async with Client(url) as client:
            return await rollout({"task_id": TASK}, Letters(turns), client)

    return asyncio.run(one())


def test_rollout_plays_without_any_framework(drill_url: str) -> None:
    drill = TASKS.drill(TASK)
    calls = [("no_such_tool", {}), *drill.solution(), ("submit", {"answer": drill.answer})]
    turns = [
        {"text": "", "tool_calls": [{"id": "a", "name": name, "arguments": arguments}]} for name, arguments in calls
    ]
    done = play(drill_url, turns)
    assert (done.reward.value, done.end, [error.turn for error in done.error_turns]) == (1.0, "submit", [0])
    sampled = [token for token, mask in zip(done.ids[done.prompt :], done.mask, strict=True) if mask]
    assert "".join(map(chr, sampled)) == "".join(map(json.dumps, turns))
    assert [chr(done.ids[turn.begin]) for turn in done.turns] == [">"] * len(turns)


def test_rollout_modules_load_no_framework() -> None:
    code = (
        "import sys\nsys.modules.update(dict.fromkeys(['torch', 'transformers', 'trl', 'numpy', 'openenv']))\n"
        "from etude.trainers.rollouts import batcher, rollout, session_pool\n"
        "print(sorted(name for name in sys.modules if name.startswith('etude.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert loaded <= {
        "etude.client",
        "etude.client_socket",
        "etude.errors",
        "etude.loop_thread",
        "etude.models",
        "etude.trainers",
        "etude.trainers.rollouts",
        "etude.trainers.rollouts.session_pool",
        "etude.trainers.rollouts.rollout",
        "etude.trainers.rollouts.batcher",
    }


def test_rollout_imports_only_the_standard_library_and_the_records(root: Path) -> None:
    tree = ast.parse((root / "trainers" / "rollouts" / "rollout.py").read_bytes())
    imported = {
        f"{'.' * node.level}{node.module}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    etude_modules = {"...errors", "...models"}
    assert (
        etude_modules <= imported
        and {name.partition(".")[0] for name in imported - etude_modules} <= sys.stdlib_module_names
    )
