"""Runs on drills of an agent that asks a scripted endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from etude.environments.agents.openai import ModelOptions
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import run_episodes
from etude.environments.runs.scores import Summary
from etude.llm import LLM
from etude.models import AnswerVerifier, Task

TASKS = DrillTasks(["choose"], level=1)
Script = Callable[[int, dict[str, Any]], Any]


class Options(ModelOptions):
    """A client that does not wait between its attempts."""

    def open(self, model: str, concurrency: int) -> LLM:
        llm = super().open(model, concurrency)
        llm.attempts, llm.sleep = 3, lambda seconds: asyncio.sleep(0)
        return llm


def solver(endpoints: Any) -> Script:
    """Return a model that knows the first 200 drills."""
    expected: dict[tuple[str, str], Task] = {}
    for index in range(200):
        task = TASKS.get_task("train", index)
        tools = json.dumps([tool.schema()["function"]["name"] for tool in TASKS.drill(task.task_id).tools])
        expected[task.problem_statement, tools] = task
    assert len(expected) == 200

    def script(number: int, body: dict[str, Any]) -> Any:
        tools = json.dumps([tool["function"]["name"] for tool in body["tools"][:-1]])
        task = expected[body["messages"][0]["content"].partition("\n\n---")[0], tools]
        assert isinstance(task.verifier, AnswerVerifier)
        steps = [*TASKS.drill(task.task_id).solution(), ("submit", {"answer": task.verifier.answer})]
        created = sum(message["role"] == "assistant" for message in body["messages"])
        return endpoints.say("next", endpoints.call(*steps[created]))

    return script


def run(endpoint: str, out: Path, agent: str = "openai:m", **more: Any) -> Summary:
    """Play two drills with a model at ``endpoint``."""
    model = Options(base_url=endpoint, **more.pop("model", {}))
    return asyncio.run(run_episodes(TASKS, agent, out=out, model=model, **{"limit": 2, **more}))


def rows(out: Path) -> list[dict[str, Any]]:
    """Return the rows of a run."""
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
