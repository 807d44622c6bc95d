"""The coding environment: tasks made of repositories, played with eight tools in a sandbox, graded by hidden tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field

from ...errors import SnapshotError
from ...hints.transcript.parsing import parse_turn
from ...models import AnswerVerifier, Episode, PytestVerifier, Task
from ..actions import Solution, call, turn
from ..base import BaseSession
from ..declaration import Names, Opening, with_give_up
from ..grading import Submission, changes_of
from ..running import Budget
from ..sandbox import WORKSPACE, Sandbox, SavedLayer, open_sandbox
from ..tasks.task_set import Tasks
from ..tasks.task_trees import Materials, materials, unplayable
from ..tool_protocol import RESTRICTED, SUBMIT, Context
from .prompt import prompt
from .restricted import absent_programs, without_profile
from .tools import TOOLS, run_tool, schemas

T = TypeVar("T")
MAX_CHANGES = 50_000
"""Changed paths beyond which a workspace is not collected."""
PATCH_FILE = "/tmp/solution.patch"


@dataclass(frozen=True)
class CodingKnobs:
    """Settings of the coding environment."""

    turns: Annotated[int | None, Field(ge=1)] = None
    """Turns after which an episode ends and is graded; default: 100."""
    tools: Names | None = None
    """Names of the tools that the agent gets; ``restricted`` takes programs such as find away; default: all."""


class CodingSession(BaseSession):
    """Exercises in real repositories: read, edit and test code in a sandbox; hidden tests grade the result."""

    _sandbox: Sandbox | None = None
    _sandbox_tree: Path | None = None
    _materials: Materials
    _is_new = False

    @classmethod
    def knobs(cls) -> type:
        """Return the dataclass of the settings."""
        return CodingKnobs

    @classmethod
    def open(cls, tasks: Tasks, knobs: CodingKnobs | None = None, **options: Any) -> Self:
        """Return a session with the knobs; ``options`` are those of the constructor."""
        if knobs is not None and knobs.turns is not None:
            options["budget"] = Budget(turns=knobs.turns)
        if knobs is not None and knobs.tools is not None:
            options["tools"] = knobs.tools
        return cls(tasks, **options)

    @classmethod
    def tools(cls, knobs: CodingKnobs | None = None) -> list[dict[str, Any]]:
        """Return the schemas of the tools, of the chosen ones where the knobs choose. Raises UnknownName."""
        chosen = None if knobs is None or knobs.tools is None else cls.choose_tools(knobs.tools)
        return schemas(list(TOOLS) if chosen is None else without_profile(chosen))

    @classmethod
    def choose_tools(cls, names: Sequence[str] | None) -> list[str]:
        """Return the chosen tools, and ``restricted`` after them when it is among the names. Raises UnknownName.

        ``restricted`` alone stands for all tools with a restricted shell.
        """
        if names is None or RESTRICTED not in names:
            return super().choose_tools(names)
        return [*super().choose_tools(without_profile(names) or None), RESTRICTED]

    @classmethod
    def solve(cls, task: Task) -> Solution:
        """Return the turns that apply the task's patch and look at the tests; a question has only an answer."""
        if isinstance(task.verifier, AnswerVerifier):
            return super().solve(task)
        write = call("write_file", path=PATCH_FILE, content=task.patch)
        apply = call("bash", command=f"git apply --whitespace=nowarn {PATCH_FILE}")
        actions = [turn("apply the solution", write, apply)] if task.patch else []
        return Solution(actions, checks=[turn("run the tests", call("run_tests"))])

    async def row(self, task: Task) -> Opening:
        """Return what the agent of a task is shown first, without opening a sandbox."""
        names = without_profile(self._tools)
        opening = Opening(prompt(task, names), schemas(names, self._limits.timeout_s), WORKSPACE)
        return with_give_up(opening, task)

    async def prepare(self, task: Task) -> None:
        """Make the task's Snapshot and trees in the cache."""
        await _in_own_thread(partial(_prepare, task, self._tasks.blobs))

    async def open_world(self, task: Task, tools: list[str]) -> Opening:
        """Open a sandbox with the task's workspace; the sandbox of the same workspace is used again."""
        self._materials = trees = await _in_own_thread(partial(_prepare, task, self._tasks.blobs))
        if self._sandbox is None or self._sandbox_tree != trees.agent_tree:
            await self.close_world()
            self._sandbox = await open_sandbox(trees.agent_layers, self._limits, self._backend)
            self._sandbox_tree, self._is_new = trees.agent_tree, True
        names = without_profile(tools)
        tests = task.verifier if isinstance(task.verifier, PytestVerifier) else trees.snapshot.verifier
        self._context = Context(self._sandbox, task, self._limits, absent_programs(tools), tests)
        offered = schemas(names, self._limits.timeout_s)
        return Opening(prompt(task, names), offered, WORKSPACE, trees.visible_files, self._sandbox.report)

    async def restore_world(self, layer: SavedLayer | None) -> None:
        """Bring the sandbox to a saved layer, or to its start."""
        is_new, self._is_new = self._is_new, False
        if layer is not None:
            await self._context.sandbox.restore(layer)
        elif not is_new:
            await self._context.sandbox.reset()

    async def save_world(self) -> SavedLayer | None:
        """Return the writable layer of the sandbox. Raises ValueError when it is too large."""
        return await self._context.sandbox.save()

    def changes_world(self, tool: str) -> bool:
        """Return whether a tool may change the sandbox."""
        return TOOLS[tool].writes

    async def run_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """Run a checked call in the sandbox."""
        return await run_tool(self._context, name, arguments)

    async def submission(self, task: Task, answer: str) -> Submission:
        """Collect the changes of the workspace; no process of the agent outlives the call that started it."""
        submission = partial(
            Submission,
            task,
            answer=answer,
            backend=self._backend,
            limits=self._limits,
            snapshot=self._materials.snapshot,
        )
        try:
            return submission(await self._context.sandbox.changes(max_files=MAX_CHANGES))
        except ValueError as error:  # too many files: the agent's doing
            return submission(problem=f"the workspace cannot be collected: {error}")

    async def stored_submission(self, task: Task, episode: Episode) -> Submission | None:
        """Return the stored diff and answer, None where changes were refused: their content is not stored."""
        if any(change.kind == "refused" for change in episode.diff):
            return None
        trees = self._materials = await _in_own_thread(partial(_prepare, task, self._tasks.blobs))
        return Submission(
            task,
            changes_of(episode.diff),
            answer=_submitted_answer(episode),
            backend=self._backend,
            limits=self._limits,
            snapshot=trees.snapshot,
        )

    async def close_world(self) -> None:
        """Close the sandbox."""
        sandbox, self._sandbox, self._sandbox_tree = self._sandbox, None, None
        if sandbox is not None:
            await sandbox.close()


def _submitted_answer(episode: Episode) -> str:
    """Return the answer of the submission that ended an episode, '' for one that ended otherwise."""
    if episode.end != "submit":
        return ""
    calls = parse_turn(episode.turns[-1].action, len(episode.turns) - 1).calls
    answers = [call.arguments.get("answer") for call in calls if call.name == SUBMIT and not call.problem]
    return str(answers[0] or "").strip() if answers else ""


async def _in_own_thread(function: Callable[[], T]) -> T:
    """Run a function that may take minutes in a new thread: grades of other sessions need the loop's few threads."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="etude-prepare")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, function)
    finally:
        executor.shutdown(wait=False)


def _prepare(task: Task, blobs: Path | None) -> Materials:
    """Make the task's trees where the cache lacks them; blocking. Raises GraderError."""
    try:
        trees = materials(task, blobs=blobs)
        _ = trees.agent_layers, trees.grading_layers, trees.installed, trees.visible_files
    except (SnapshotError, ValueError, OSError) as error:
        raise unplayable(task, error) from error
    return trees
