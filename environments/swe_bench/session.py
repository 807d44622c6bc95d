"""The SWE-bench environment: an issue, the repository before its fix, and the project's own tests as judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import TaskSetError
from ...models import Task
from ..coding.session import CodingSession
from ..declaration import Opening
from ..tasks.task_set import Tasks

REMEDY = "make a set of them with `etude import ROWS --out DIR`"


class SweBenchSession(CodingSession):
    """Issues of real repositories: read, edit and test the code before the fix; the fix's own tests grade the result.

    The tools, the sandbox, the grading, the error turns, hints, forks and limits are those of the coding environment.
    The workspace is a repository of one commit: neither the fix nor any later history, tag or reflog is in it.
    """

    @classmethod
    def tasks(cls, folder: Path | None = None, knobs: Any = None) -> Tasks:
        """Return the task set in ``folder``. Raises TaskSetError for rows that were not imported."""
        tasks = super().tasks(folder, knobs)
        for task in tasks:
            check(task)
        return tasks

    @classmethod
    def tools(cls, knobs: Any = None) -> list[dict[str, Any]]:
        """Return the schemas of the tools; ``run_tests`` needs a selector."""
        return [_with_selector(schema) for schema in super().tools(knobs)]

    async def row(self, task: Task) -> Opening:
        """Return what the agent of a task is shown first, without opening a sandbox."""
        return _shown(await super().row(task))

    async def open_world(self, task: Task, tools: list[str]) -> Opening:
        """Open a sandbox with the task's workspace."""
        return _shown(await super().open_world(task, tools))


_OLD_TESTS = "- Tests that you can see may assert the old behaviour: the tests of the fix replace them.\n"


def _shown(opening: Opening) -> Opening:
    """Return the opening with this environment's schema of ``run_tests`` and its own rule about visible tests."""
    tools = [_with_selector(schema) for schema in opening.tools]
    return replace(opening, prompt=opening.prompt + _OLD_TESTS, tools=tools)


def check(task: Task) -> None:
    """Raise TaskSetError for a row without what this environment needs: an environment and measured labels."""
    if task.snapshot is None:
        raise TaskSetError(f"{task.task_id} names no snapshot, as rows of SWE-bench do; {REMEDY}")
    if not task.FAIL_TO_PASS:
        raise TaskSetError(f"{task.task_id} has no test that must pass; {REMEDY}")


def _with_selector(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool as it is here: ``run_tests`` needs a selector, since whole suites take too long."""
    function = schema["function"]
    if function["name"] != "run_tests":
        return schema
    properties = {"selector": {"type": "string", "description": "a test file, folder or test id"}}
    parameters = {**function["parameters"], "properties": properties, "required": ["selector"]}
    described = {**function, "description": "Run tests with the project's own test runner.", "parameters": parameters}
    return {**schema, "function": described}
