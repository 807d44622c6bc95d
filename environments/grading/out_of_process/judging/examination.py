"""One task's examined functions, and the sandboxes in which its solutions answer calls and its tests run."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from .....errors import GraderError
from .....models import FileChange, Task
from ....sandbox import KILLED, ExecResult, Limits, open_sandbox
from ....snapshots.test_run.compiled_program import RUN_PROGRAM
from ....snapshots.test_run.placed_files import WRITE_FILES, write_files
from ....snapshots.test_run.test_runner import ENVIRONMENT, START, Crossing, TestRun, run_tests
from ....tasks.task_paths import source_files
from ....tasks.task_trees import Materials
from ...own_solution import own_solution
from ...placing import packed_changes
from ..processes.programs import boundary_parts, worker_program
from ..recorded_calls import Call
from ..targets import Examined, changed_constructors, examine
from .allowance import IDLE_SECONDS, MOST_SECONDS, TRIES, Allowance
from .answers import Answers, parsed

CPU_SECONDS = 60.0
TRUSTED_MEMORY = 1024 * 1024 * 1024
"""Most bytes of memory of a run in the trusted tree."""


@lru_cache(maxsize=16)
def _examined(
    before: tuple[tuple[str, bytes], ...],
    solved: tuple[tuple[str, bytes], ...],
    roots: tuple[str, ...],
    entries: tuple[str, ...] | None,
) -> Examined:
    """Return the examined functions of a task, which is graded many times in a process."""
    return examine(dict(before), dict(solved), roots, entries)


@dataclass(frozen=True)
class Replies:
    """What examined functions return in the trusted tree."""

    answers: Mapping[str, Any] | None = None
    """The calls of each test with their answers; None where the functions run and their calls are recorded."""
    allowed: Any = None
    """The classes and functions that answers may name; None for all."""
    rules: Mapping[str, Any] | None = None
    """Rules for which calls an answer belongs to and what it may change (see ``rules_of``)."""


@dataclass(frozen=True)
class Examination:
    """One task's examined functions, with the sandboxes that its solutions are tried in."""

    task: Task
    trees: Materials
    backend: str = "auto"
    limits: Limits = field(default_factory=Limits)
    entries: tuple[str, ...] = ()
    """Other functions that end at the boundary: those through which tests reach the examined ones."""
    allowance: Allowance | None = None
    """The time and tries that the solution has left; None for no limit."""

    @cached_property
    def examined(self) -> Examined:
        """Return the functions that the task's own solution changes, and the trusted files."""
        return self.with_entries(self.entries)

    def with_entries(self, entries: Sequence[str] | None) -> Examined:
        """Return the same with more functions that end at the boundary; None stands for all that can be replaced."""
        paths = source_files(self.task)
        before = {path: file.read_bytes() for path in paths if (file := self.trees.pristine_tree / path).is_file()}
        solved = {path: file.read_bytes() for path in paths if (file := self.trees.solved_tree / path).is_file()}
        chosen = None if entries is None else tuple(entries)
        return _examined(tuple(before.items()), tuple(solved.items()), tuple(self.task.pytest.python_path), chosen)

    async def answers(
        self,
        changes: Sequence[FileChange],
        tests: Mapping[str, Sequence[Call]],
        opaque: Sequence[str],
        watched: Sequence[str] | None = None,
        is_trial: bool = False,
        groups: Sequence[Collection[str]] = (),
    ) -> Answers:
        """Return a solution's answers to the calls of each test.

        ``watched`` are the names in modules whose changes belong to the answers, None for all. A trial has little time,
        and all its tests share a process. The tests of each of the ``groups`` have a sandbox of their own. Raises
        SandboxError when the sandbox fails, GraderError where the machine kills it, OutOfTime.
        """
        roots = self.task.pytest.python_path
        constructors = await asyncio.to_thread(changed_constructors, self.trees.pristine_tree, changes, roots)
        targets = [call["target"] for calls in tests.values() for call in calls if call["target"][0] != "@"]
        job: dict[str, Any] = {"opaque": list(opaque), "packages": list(self.packages), "python_path": roots}
        job |= {"modules": list(dict.fromkeys(target.partition(":")[0] for target in targets))}
        job |= {"constructors": constructors, "watched": watched, "is_trial": is_trial}
        job |= {"decorated": dict(self.examined.decorated)}
        # Held-out calls have arguments of tests, and these are answers of others: neither may see the other's.
        held_out = [name for name in tests if not name.isdigit()]
        apart = [*(groups or [[name for name in tests if name.isdigit()]]), held_out]
        parts_sent = [{name: calls for name, calls in tests.items() if name in names} for names in apart]
        jobs = [{**job, "tests": part} for part in parts_sent if part]
        parts = await asyncio.gather(*(self._worker_answers(changes, json.dumps(part).encode()) for part in jobs))
        pairs = zip(jobs, parts, strict=True)  # a process answers nothing that another one was asked
        return {name: answers for sent, part in pairs for name, answers in part.items() if name in sent["tests"]}

    async def _worker_answers(self, changes: Sequence[FileChange], job: bytes) -> Answers:
        async def own() -> ExecResult:
            return await self._worker(await asyncio.to_thread(own_solution, self.task, self.trees), job)

        allowance = self.allowance or Allowance(math.inf)
        result = await allowance.undisturbed(lambda: self._worker(changes, job), own)
        return parsed(result.channel)

    async def _worker(self, changes: Sequence[FileChange], job: bytes) -> ExecResult:
        """Run a job in a fresh sandbox with the solution; without answers where its files cannot be written."""
        sandbox = await open_sandbox(self.trees.agent_layers, self.limits, self.backend)
        try:
            return await sandbox.exec(
                [*START, WRITE_FILES, RUN_PROGRAM],
                stdin=packed_changes(changes) + worker_program() + job,
                env=ENVIRONMENT,
                timeout_s=min(MOST_SECONDS, (self.allowance or Allowance()).seconds),
                cpu_s=CPU_SECONDS,
                idle_s=IDLE_SECONDS,
                output_limit=4096,
                channel=True,
            )
        finally:
            await sandbox.close()

    @property
    def packages(self) -> Sequence[str]:
        """Return the top-level modules of the examined files."""
        return tuple(
            dict.fromkeys(
                target.partition(":")[0].partition(".")[0] for target in [*self.examined.targets, *self.entries]
            )
        )

    async def trusted_run(self, tests: Sequence[str], replies: Replies = Replies(), hash_seed: int = 0) -> TestRun:
        """Run tests in the trusted tree; their calls are recorded, or answered with the task's own answers.

        Raises GraderError where the machine kills the run: no code of a solution is in it.
        """
        for _ in range(TRIES):
            run = await self.answered_run(tests, replies, hash_seed)
            if run.exit_code not in KILLED:
                return run
        raise GraderError(
            f"the tests of task {self.task.task_id!r} were killed {TRIES} times (exit {run.exit_code}); find what "
            "kills processes on this machine and grade again"
        )

    async def answered_run(self, tests: Sequence[str], replies: Replies, hash_seed: int = 0) -> TestRun:
        """Run the tests once, even if the run is killed: the solution's answers may be what kills it."""
        job = {
            **(replies.rules or {}),
            "answers": replies.answers,
            "allowed": replies.allowed,
            "has_entries": bool(self.entries),
            "opaque": list(self.examined.opaque),
            "targets": list(self.examined.targets),
            "packages": list(self.packages),
        }
        return await self.trusted_process(tests, Crossing(boundary_parts(), job), self.examined.files, hash_seed)

    async def trusted_process(
        self, tests: Sequence[str], crossing: Crossing, files: Mapping[str, bytes], hash_seed: int = 0
    ) -> TestRun:
        """Run tests in the trusted tree with ``files`` in place of its own. Raises SandboxError."""
        limits = replace(self.limits, memory=min(self.limits.memory, TRUSTED_MEMORY))
        sandbox = await open_sandbox(self.trees.snapshot.layers(self.trees.solved_tree), limits, self.backend)
        try:
            await write_files(sandbox, files)
            limit = self.task.pytest.timeout_s
            if self.trees.snapshot.recipe.measured:  # an answer may keep a test busy
                limit = min(limit, max(60.0, 20.0 * self.trees.snapshot.baseline.seconds))
            return await run_tests(
                sandbox, self.task.pytest, tests, hash_seed=hash_seed, crossing=crossing, timeout_s=limit
            )
        finally:
            await sandbox.close()
