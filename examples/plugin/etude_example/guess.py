"""The environment ``guess``: find a hidden number by comparisons. It makes its own tasks and needs no sandbox."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from etude.environments.actions import Solution, call, turn
from etude.environments.base import BaseSession
from etude.environments.declaration import SUBMIT_SCHEMA
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tool_protocol import function_schema, parameters_schema
from etude.errors import ToolError
from etude.models import AnswerVerifier, GeneratorRef, Task

COMPARE = function_schema(
    "compare",
    "Compare a number with the hidden one: higher, lower or equal.",
    parameters_schema({"number": {"type": "integer"}}, ["number"]),
)


@dataclass(frozen=True)
class Knobs:
    """Settings of the guessing tasks."""

    highest: Annotated[int, Field(ge=2)] = 100
    """Largest number that may be hidden."""
    count: Annotated[int, Field(ge=1)] = 5
    """Number of tasks."""


class GuessSession(BaseSession):
    """Find a hidden number by comparisons."""

    makes_tasks = True

    @classmethod
    def knobs(cls) -> type:
        """Return the dataclass of the settings."""
        return Knobs

    @classmethod
    def tasks(cls, folder: Path | None = None, knobs: Knobs | None = None) -> TaskSet:
        """Return the tasks of these settings; ``folder`` is not used."""
        chosen = knobs or Knobs()
        return TaskSet([make_task(seed, chosen.highest) for seed in range(chosen.count)])

    @classmethod
    def tools(cls, knobs: Knobs | None = None) -> list[dict[str, Any]]:
        """Return the schemas of the tools."""
        return [COMPARE, SUBMIT_SCHEMA]

    @classmethod
    def solve(cls, task: Task) -> Solution:
        """Return the actions of a scripted agent that knows the number."""
        number = task.verifier.answer
        return Solution([turn("check it", call("compare", number=int(number)))], call("submit", answer=number))

    async def open_world(self, task: Task, tools: list[str]) -> Any:
        """Remember the hidden number."""
        self.number, self.highest = int(task.verifier.answer), int(task.features["highest"])
        return await super().open_world(task, tools)

    async def run_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """Compare a number with the hidden one. Raises ToolError for a number outside the range."""
        number = arguments["number"]
        if not 1 <= number <= self.highest:
            raise ToolError("invalid_args", f"compare: number must be between 1 and {self.highest}, got {number}")
        return "ok", "equal" if number == self.number else "higher" if self.number > number else "lower"


def make_task(seed: int, highest: int) -> Task:
    """Return the task of a seed."""
    return Task(
        task_id=f"guess-{highest}-{seed}",
        environment="guess",
        generator=GeneratorRef(name="guess", version="1", seed=seed),
        problem_statement=f"Find the hidden number between 1 and {highest}, then submit it as the answer.",
        verifier=AnswerVerifier(answer=str(random.Random(f"guess {highest} {seed}").randint(1, highest))),
        features={"highest": highest},
    )
