"""``etude validate``: everything that is claimed of a task set is seen to hold again, whoever made the set.

The row and its Snapshot are all that is used, so sets of other generators and of older versions are checked the same
way; each Snapshot is opened once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ...environments import agents
from ...environments.coding.session import CodingSession
from ...environments.runs.play import play
from ...environments.snapshots.store.cache import cache_folder, temporary_folder
from ...environments.tasks.task_set import TaskSet
from ...environments.tasks.task_trees import Materials, materials
from ...errors import GraderError, InfrastructureError, PatchError, SandboxError, SnapshotError, UnknownName
from ...models import Task
from ...registry import did_you_mean
from ..output.write_clean_set import refuse_occupied, write_clean
from .checks.adequacy import missing
from .checks.duplicates import Print, duplicates, fingerprint
from .checks.leaks import LeakCheck
from .checks.removed import Exercise
from .checks.stability import RUNS, unstable
from .checks.trivial import survivors

EXPECTED = {"oracle": 1.0, "noop": 0.0, "cheater": 0.0}
CHECKS = {
    "oracle": "the solution scores 1",
    "noop": "doing nothing scores 0",
    "cheater": "every exploit together scores 0",
    "trivial": "bodies that answer nothing score 0",
    "stable": "the solution passes in every order and with other hash seeds",
    "leaks": "nothing that the agent can read holds the solution",
    "statement": "what hidden tests ask for by name is told",
    "strength": "the row says how many mistakes the hidden tests notice",
    "duplicates": "no two tasks are the same exercise",
}
OPENING = "snapshot"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Problem:
    """What does not hold. ``infrastructure``: the machine's fault, so that nothing is known of the task.

    ``reward`` is what an agent got where that is the problem, ``None`` when it got none.
    """

    task_id: str
    check: str
    cause: str
    reward: float | None = None
    infrastructure: bool = False

    def __str__(self) -> str:
        score = "" if self.reward is None else f" scored {self.reward}"
        return f"{self.task_id}: {self.check}{score}: {self.cause}"


@dataclass
class ValidationReport:
    """``rows``: one per check, with its tasks, how many hold and, for agents, the mean reward.

    ``kept`` is the number of tasks in the cleaned set, when one was written.
    """

    tasks: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    kept: int | None = None

    @property
    def ok(self) -> bool:
        return self.tasks > 0 and not self.problems


def validate(
    folder: Path,
    *,
    sample: int | None = None,
    jobs: int = 1,
    backend: str = "auto",
    skip: Collection[str] = (),
    runs: int = len(RUNS),
    out: Path | None = None,
    progress: Progress = lambda phase, done, total: None,
) -> ValidationReport:
    """Run every check but those in ``skip`` on every task (or on ``sample`` tasks, drawn by the hash of their ids).

    ``runs`` is how often the flake audit runs the solution. ``out`` gets the tasks without a problem, their rows
    byte for byte, whole or not at all. What the machine does wrong is a Problem with its cause, never a score.
    Raises TaskSetError for a folder without a readable set, SnapshotError for a cache that cannot be written,
    UnknownName for a check that there is not, GeneratorError for an ``out`` that is taken or cannot be written.
    """
    for name in skip:
        if name not in CHECKS:
            raise UnknownName(did_you_mean("check", name, CHECKS))
    tasks = TaskSet.load(folder)
    refuse_occupied(out, sample)
    with temporary_folder(cache_folder()):
        pass  # asked once, not by each task
    chosen = sorted(tasks, key=lambda task: hashlib.sha256(task.task_id.encode()).digest())[: sample or None]
    audit = Audit(tasks, backend, [name for name in CHECKS if name not in skip], runs)
    asyncio.run(audit.run(chosen, jobs, progress))
    report = audit.report([task for task in tasks if task in chosen] if sample else list(tasks))
    if out is not None:
        report.kept = write_clean(folder, out, tasks, report.rows, report.problems)
    return report


@dataclass
class Audit:
    """The state of one validation: what was found so far, and what the tasks of one Snapshot share."""

    tasks: TaskSet
    backend: str
    checks: list[str]
    runs: int
    problems: list[Problem] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    prints: dict[str, Print] = field(default_factory=dict)
    leaks: dict[str, LeakCheck] = field(default_factory=dict)

    async def run(self, chosen: list[Task], jobs: int, progress: Progress) -> None:
        """All checks of all tasks, ``jobs`` tasks at a time."""
        gate, done = asyncio.Semaphore(jobs), 0

        async def one(task: Task) -> None:
            nonlocal done
            async with gate:
                await self._task(task)
            done += 1
            progress("checks", done, len(chosen))

        progress("checks", 0, len(chosen))
        try:
            async with asyncio.TaskGroup() as group:
                for task in chosen:
                    group.create_task(one(task))
        except BaseExceptionGroup as errors:  # the first one says what is wrong; the others were cancelled for it
            raise errors.exceptions[0] from None

    async def _task(self, task: Task) -> None:
        try:
            made = await asyncio.to_thread(materials, task, blobs=self.tasks.blobs)
            exercise = await asyncio.to_thread(Exercise.of, task, made)
        except (PatchError, ValueError, SyntaxError) as error:
            self.problems.append(Problem(task.task_id, OPENING, _line(error)))
            return
        except (SnapshotError, OSError) as error:
            self.problems.append(Problem(task.task_id, OPENING, _line(error), infrastructure=True))
            return
        for agent in EXPECTED:
            if agent in self.checks:
                await self._episode(task, agent)
        checks: dict[str, Callable[[], Awaitable[str]]] = {
            "trivial": partial(self._trivial, task, made, exercise),
            "stable": partial(self._stable, task, made),
            "leaks": partial(asyncio.to_thread, self._leaks, task, made, exercise),
            "statement": partial(asyncio.to_thread, _statement, task, made, exercise),
            "strength": partial(asyncio.to_thread, _strength, task),
        }
        for name, check in checks.items():
            if name in self.checks:
                await self._guarded(task, name, check)
        if "duplicates" in self.checks:
            self.prints[task.task_id] = fingerprint(task, exercise)

    async def _guarded(self, task: Task, name: str, check: Callable[[], Awaitable[str]]) -> None:
        try:
            cause = await check()
        except (SandboxError, SnapshotError, GraderError, OSError) as error:
            self.problems.append(Problem(task.task_id, name, _line(error), infrastructure=True))
            return
        if cause:
            self.problems.append(Problem(task.task_id, name, cause))

    async def _episode(self, task: Task, agent: str) -> None:
        reward, cause = await _play(self.tasks, task, agent, self.backend)
        if reward is None:
            self.problems.append(Problem(task.task_id, agent, cause, infrastructure=True))
            return
        self.rewards.setdefault(agent, []).append(reward)
        if reward != EXPECTED[agent]:
            self.problems.append(Problem(task.task_id, agent, cause or f"expected {EXPECTED[agent]}", reward))

    async def _trivial(self, task: Task, made: Materials, exercise: Exercise) -> str:
        found = await survivors(task, made, exercise, backend=self.backend)
        return f"the body {found[0]!r} passes every hidden test" if found else ""

    async def _stable(self, task: Task, made: Materials) -> str:
        found = await unstable(task, made, runs=self.runs, backend=self.backend)
        more = f" (and {len(found) - 1} more tests)" if len(found) > 1 else ""
        return "".join(f"{test}: {told}{more}" for test, told in list(found.items())[:1])

    def _leaks(self, task: Task, made: Materials, exercise: Exercise) -> str:
        digest = made.snapshot.digest
        check = self.leaks.setdefault(digest, LeakCheck(made.snapshot))
        found = check.find(task, made, exercise)
        return str(found[0]) if found else ""

    def report(self, tasks: list[Task]) -> ValidationReport:
        """What was found, in the order of the set."""
        prints = [self.prints[task.task_id] for task in tasks if task.task_id in self.prints]
        for repeated, original in duplicates(prints).items():
            self.problems.append(Problem(repeated, "duplicates", f"the same exercise as {original}"))
        place = {task.task_id: number for number, task in enumerate(tasks)}
        names = [OPENING, *self.checks]
        problems = sorted(self.problems, key=lambda item: (place[item.task_id], names.index(item.check)))
        report = ValidationReport(tasks=len(tasks), problems=problems)
        unopened = {problem.task_id for problem in problems if problem.check == OPENING}
        for name in names:
            failed = {problem.task_id for problem in problems if problem.check == name}
            if name == OPENING and not failed:
                continue
            seen = len(tasks) - (0 if name == OPENING else len(unopened))
            row = {"check": name, "tasks": seen, "ok": seen - len(failed), "failed": len(failed)}
            rewards = self.rewards.get(name)
            report.rows.append({**row, "mean_reward": fmean(rewards) if rewards else None})
        return report


def _statement(task: Task, made: Materials, exercise: Exercise) -> str:
    found = missing(task, made, exercise)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"hidden tests rely on the {found[0].kind} {found[0].name!r}{more}, which nothing tells" if found else ""


def _strength(task: Task) -> str:
    if task.verifier_strength is None and task.features.get("mutants") != 0:
        return "the row has no verifier_strength: make it again with this version"
    return ""


async def _play(tasks: TaskSet, task: Task, agent: str, backend: str) -> tuple[float | None, str]:
    """Reward and, where it is not 1, why."""
    session = CodingSession(tasks, backend=backend)
    try:
        await play(task, agents.make(agent, task), session)
        episode = session.episode()
    except InfrastructureError as error:
        return None, _line(error)
    finally:
        await session.close()
    if episode.reward is None or not episode.reward.valid:
        return None, "the episode was not graded"
    failed = episode.grade.failures if episode.grade else []
    return episode.reward.value, _line(f"{failed[0].test}: {failed[0].cause}") if failed else ""


def _line(error: object) -> str:
    return " ".join(str(error).split())
