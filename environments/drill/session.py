"""The drill environment: short procedural exercises in using tools, without a repository and without a sandbox.

A turn takes microseconds, so this is where trainers warm up and are measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import SessionError
from ...models import Task
from ..actions import Solution, call, turn
from ..base import BaseSession
from ..declaration import SUBMIT_SCHEMA, Opening
from ..grading.submission import Submission
from ..running import Budget
from ..tasks.task_set import Tasks
from .exercise import Drill, State
from .tasks import DrillKnobs, DrillTasks, default_drills

_RULES = """

---

- Each tool result starts with a status line: ok, or error and what is wrong.
- When you are done, call submit with the answer: it ends the episode.
"""


class DrillSession(BaseSession):
    """Drills: endless made-up exercises in choosing, chaining and recovering with tools, graded by an exact answer."""

    makes_tasks = True
    default_budget = Budget(turns=32, seconds=math.inf)

    _drill: Drill
    _state: State

    @classmethod
    def knobs(cls) -> type:
        """Return the dataclass of the settings."""
        return DrillKnobs

    @classmethod
    def tasks(cls, folder: Path | None = None, knobs: DrillKnobs | None = None) -> Tasks:
        """Return drills of the chosen families and level. Raises UnknownName, ValueError for a folder."""
        if folder is not None:
            raise ValueError("drills are made on the fly; leave out --tasks and ETUDE_TASKS")
        return DrillTasks() if knobs is None else DrillTasks(knobs.families, level=knobs.level)

    @classmethod
    def choose_tools(cls, names: Sequence[str] | None) -> list[str]:
        """Raise SessionError for chosen tools: each drill has its own."""
        if names is not None:
            raise SessionError("a drill's tools are part of the drill; leave tools out")
        return []

    @classmethod
    def solve(cls, task: Task) -> Solution:
        """Return the calls that the drill asks for, and its answer."""
        drill = default_drills().drill(task.task_id)
        actions = [turn("the next step", call(tool, **arguments)) for tool, arguments in drill.solution()]
        return Solution(actions, call("submit", answer=drill.answer))

    async def row(self, task: Task) -> Opening:
        """Return what the agent is shown first, without opening an episode. Raises UnknownName."""
        return _opening(self._drill_of(task))

    async def open_world(self, task: Task, tools: list[str]) -> Opening:
        """Start the drill in its first state."""
        self._drill, self._state = self._drill_of(task), {}
        self._run = {tool.name: tool.run for tool in self._drill.tools}
        return _opening(self._drill)

    async def run_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """Run one of the drill's tools on its state."""
        return "ok", self._run[name](self._state, arguments)

    async def submission(self, task: Task, answer: str) -> Submission:
        """Return the answer and what the agent changed."""
        return Submission(task, answer=answer, effects=self._state.get("effects", {}))

    def _drill_of(self, task: Task) -> Drill:
        """Return the drill of a task, also of one that was stored as a row. Raises UnknownName."""
        tasks = self._tasks if isinstance(self._tasks, DrillTasks) else default_drills()
        return tasks.drill(task.task_id)


def _opening(drill: Drill) -> Opening:
    return Opening(drill.statement + _RULES, [*(tool.schema() for tool in drill.tools), SUBMIT_SCHEMA], drill.workdir)
