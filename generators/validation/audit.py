"""``etude validate``: everything that a task set claims is checked again, whichever generator made it.

Only the row and its Snapshot are used, so sets of other generators and of older versions are checked in the same way.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean

from ...environments import ENVIRONMENTS, agents
from ...environments.hub.download import task_folder
from ...environments.runs.parallel import at_once
from ...environments.runs.play import play
from ...environments.runs.unfinished import Unfinished
from ...environments.snapshots.store.cache import cache_folder, temporary_folder
from ...environments.tasks.task_set import TaskSet
from ...environments.tasks.task_trees import Materials, materials
from ...errors import GraderError, InfrastructureError, OutOfTime, PatchError, SandboxError, SnapshotError, UnknownName
from ...models import CHANGED_TEST, IMPOSSIBLE, RENAMED_FROM, Task
from ...registry import did_you_mean
from ..base import Progress, ProgressUpdate, no_progress
from ..output.write_clean_set import refuse_unusable, write_clean
from .audit_report import CheckRow, Problem, ValidationReport
from .checks.adequacy import missing_items
from .checks.duplicates import Fingerprint, duplicates, fingerprint
from .checks.exercise import Exercise
from .checks.leaks import LeakCheck
from .checks.stability import RUNS, SnapshotRuns, described, unstable
from .checks.wrong_solutions.attempts import rewarded_bodies
from .deliverables import audit as delivered

EXPECTED = {"oracle": 1.0, "noop": 0.0, "cheater": 0.0}
CHECKS = {
    "oracle": "the solution scores 1; that of an impossible twin fails the changed test alone",
    "noop": "doing nothing scores 0",
    "cheater": "several exploits of the corpus, played in one episode, score 0",
    "trivial": "bodies that do nothing score 0",
    "stable": "the solution passes, and doing nothing fails, in every order and with other hash seeds",
    "leaks": "nothing that the agent can read holds the solution",
    "statement": "the agent can read what hidden tests ask for by name",
    "strength": "the row says how many mistakes the hidden tests notice",
    "duplicates": "no two tasks are the same exercise",
}
_NOT_OF_TWINS = ("stable", "duplicates")
"""Checks that an impossible twin fails by construction: its solution fails one test, and it repeats its original."""
OPENING = "snapshot"
"""The name under which a task that cannot be opened is reported."""


def validate(
    folder: Path,
    *,
    sample: int | None = None,
    jobs: int = 1,
    backend: str = "auto",
    skip: Collection[str] = (),
    runs: int = len(RUNS),
    out: Path | None = None,
    progress: Progress = no_progress,
) -> ValidationReport:
    """Run every check except ``skip`` on every task, or on ``sample`` tasks drawn by the hash of their ids.

    ``runs`` is the number of runs of the flake audit. ``out`` gets the tasks without a problem, their rows byte for
    byte, atomically. A failure of the machine is a Problem with its cause, never a score. The results of an
    audit that was interrupted, or that the machine failed, are those of the next one with the same arguments; what the
    machine failed is checked again. Raises TaskSetError for a folder without a readable set, SnapshotError for a cache
    that cannot be written, UnknownName for an unknown check, GeneratorError when ``out`` exists or cannot be written.
    """
    for name in skip:
        if name not in CHECKS:
            raise UnknownName(did_you_mean("check", name, CHECKS))
    folder = task_folder(folder)
    tasks = TaskSet.load(folder)
    refuse_unusable(out, sample)
    with temporary_folder(cache_folder()):
        pass  # a cache that cannot be written is one error here, not one for each task
    chosen = sorted(tasks, key=lambda task: hashlib.sha256(task.task_id.encode()).digest())[: sample or None]
    checks = [name for name in CHECKS if name not in skip]
    unfinished = Unfinished("validate", backend, str(runs), *checks, *(task.model_dump_json() for task in chosen))
    audit = Audit(tasks, backend, checks, runs, unfinished)
    asyncio.run(audit.run(chosen, jobs, progress))
    if not any(problem.infrastructure for problem in audit.problems):
        unfinished.finish()
    report = audit.report([task for task in tasks if task in chosen] if sample else list(tasks))
    report.earlier = unfinished.earlier
    if out is not None:
        report.written = write_clean(folder, out, tasks, report)
    return report


@dataclass
class Audit:
    """The state of one audit: what was found so far, and what the tasks of one Snapshot share."""

    tasks: TaskSet  # the set
    backend: str  # the sandbox backend
    checks: list[str]  # names of the checks to run
    runs: int  # runs of the flake audit
    unfinished: Unfinished  # results of an earlier audit, by task_id
    problems: list[Problem] = field(default_factory=list)  # problems so far
    rewards: dict[str, dict[str, float]] = field(default_factory=dict)  # rewards so far by agent and task_id
    fingerprints: dict[str, Fingerprint] = field(default_factory=dict)  # fingerprints so far by task_id
    leaks: dict[str, LeakCheck] = field(default_factory=dict)  # one leak scanner per Snapshot
    snapshot_runs: SnapshotRuns = field(init=False, repr=False)  # runs of the flake audit that tasks share

    def __post_init__(self) -> None:
        self.snapshot_runs = SnapshotRuns(self.runs, self.backend)

    async def run(self, chosen: list[Task], jobs: int, progress: Progress) -> None:
        """Run all checks of all tasks, ``jobs`` tasks at a time."""
        await at_once(chosen, jobs, self._check, lambda done: progress(ProgressUpdate("checks", done, len(chosen))))

    async def _check(self, task: Task) -> None:
        try:
            trees = await asyncio.to_thread(materials, task, blobs=self.tasks.blobs)
            exercise = await asyncio.to_thread(Exercise.of, task, trees)
        except (PatchError, ValueError, SyntaxError) as error:
            self.problems.append(Problem(task.task_id, OPENING, _one_line(error)))
            return
        except (SnapshotError, OSError) as error:
            self.problems.append(Problem(task.task_id, OPENING, _one_line(error), infrastructure=True))
            return
        exempt = _NOT_OF_TWINS if task.features.get(IMPOSSIBLE) else ("duplicates",) if _is_renamed(task) else ()
        if "duplicates" in self.checks and "duplicates" not in exempt:
            self.fingerprints[task.task_id] = fingerprint(task, exercise)
        if (earlier := self.unfinished.results.get(task.task_id)) is not None:
            self.problems += [Problem(**problem) for problem in earlier["problems"]]
            for agent, reward in earlier["rewards"].items():
                self.rewards.setdefault(agent, {})[task.task_id] = reward
            return
        await self._run_checks(task, trees, exercise, [name for name in self.checks if name not in exempt])
        problems = [problem for problem in self.problems if problem.task_id == task.task_id]
        if not any(problem.infrastructure for problem in problems):
            rewards = {
                agent: by_task[task.task_id] for agent, by_task in self.rewards.items() if task.task_id in by_task
            }
            self.unfinished.add(task.task_id, {"problems": [asdict(one) for one in problems], "rewards": rewards})

    async def _run_checks(self, task: Task, trees: Materials, exercise: Exercise, chosen: list[str]) -> None:
        for agent in EXPECTED:
            if agent in chosen:
                await self._episode(task, agent)
        checks: dict[str, Callable[[], Awaitable[str]]] = {
            "trivial": partial(self._trivial, task, trees, exercise),
            "stable": partial(self._stable, task, trees),
            "leaks": partial(asyncio.to_thread, self._leaks, task, trees, exercise),
            "statement": partial(asyncio.to_thread, _statement, task, trees, exercise),
            "strength": partial(asyncio.to_thread, _strength, task),
        }
        for name, check in checks.items():
            if name in chosen:
                await self._guarded(task, name, check)

    async def _guarded(self, task: Task, name: str, check: Callable[[], Awaitable[str]]) -> None:
        """Run a check that returns a cause, empty when the task passes."""
        try:
            cause = await check()
        except (SandboxError, SnapshotError, GraderError, OutOfTime, OSError) as error:
            self.problems.append(Problem(task.task_id, name, _one_line(error), infrastructure=True))
            return
        if cause:
            self.problems.append(Problem(task.task_id, name, cause))

    async def _episode(self, task: Task, agent: str) -> None:
        reward, failed = await _play(self.tasks, task, agent, self.backend)
        cause = _one_line(failed[0]) if failed else ""
        if reward is None:
            self.problems.append(Problem(task.task_id, agent, cause, infrastructure=True))
            return
        if agent == "oracle" and task.features.get(IMPOSSIBLE):
            self._twin_oracle(task, reward, failed)
            return
        self.rewards.setdefault(agent, {})[task.task_id] = reward
        if reward != EXPECTED[agent]:
            self.problems.append(Problem(task.task_id, agent, cause or f"expected {EXPECTED[agent]}", reward))

    def _twin_oracle(self, task: Task, reward: float, failed: list[str]) -> None:
        changed = task.features.get(CHANGED_TEST)
        if reward != 0.0 or {text.partition(": ")[0].partition("[")[0] for text in failed} != {changed}:
            cause = f"expected that {changed} fails alone, got {_one_line('; '.join(failed)) or 'no failure'}"
            self.problems.append(Problem(task.task_id, "oracle", cause[:600], reward))

    async def _trivial(self, task: Task, trees: Materials, exercise: Exercise) -> str:
        if delivered.is_delivered(task):
            return await delivered.trivial(task, trees, self.backend)
        bodies = await rewarded_bodies(task, trees, exercise, backend=self.backend)
        return f"the trivial solution {bodies[0]!r} passes every hidden test" if bodies else ""

    async def _stable(self, task: Task, trees: Materials) -> str:
        if delivered.is_delivered(task):
            return await delivered.unstable(task, trees, self.runs, self.backend)
        return described(await unstable(task, trees, runs=self.runs, backend=self.backend, shared=self.snapshot_runs))

    def _leaks(self, task: Task, trees: Materials, exercise: Exercise) -> str:
        check = self.leaks.setdefault(trees.snapshot.digest, LeakCheck(trees.snapshot))
        leaks = check.find(task, trees, exercise)
        if delivered.is_delivered(task):
            return delivered.readable(task, trees, leaks)
        return str(leaks[0]) if leaks else ""

    def report(self, tasks: list[Task]) -> ValidationReport:
        """Return the report, in the order of the set."""
        fingerprints = [self.fingerprints[task.task_id] for task in tasks if task.task_id in self.fingerprints]
        for repeated, original in duplicates(fingerprints).items():
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
            checked = len(tasks) - (0 if name == OPENING else len(unopened))
            rewards = self.rewards.get(name)
            mean_reward = fmean(rewards.values()) if rewards else None
            report.rows.append(CheckRow(name, checked, checked - len(failed), len(failed), mean_reward))
        return report


def _statement(task: Task, trees: Materials, exercise: Exercise) -> str:
    items = missing_items(task, trees, exercise)
    if not items:
        return ""
    more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
    return f"hidden tests rely on the {items[0].kind} {items[0].name!r}{more}, which the agent cannot read anywhere"


def _is_renamed(task: Task) -> bool:
    """Return whether a task repeats another one under other names, by construction."""
    return RENAMED_FROM in task.features


def _strength(task: Task) -> str:
    if "verdict" in task.features or delivered.is_delivered(task):  # a row of a public data set, or without tests
        return ""
    if task.verifier_strength is None and task.features.get("mutants") != 0:
        return "the row has no verifier_strength; generate it again with this version"
    return ""


async def _play(tasks: TaskSet, task: Task, agent: str, backend: str) -> tuple[float | None, list[str]]:
    """Return the reward of an agent and why each test failed; None and the cause when the machine failed."""
    session = ENVIRONMENTS.load(task.environment)(tasks, backend=backend)
    try:
        await play(task, agents.make(agent, task), session)
        episode = session.episode()
    except InfrastructureError as error:
        return None, [str(error)]
    finally:
        await session.close()
    if episode.reward is None or not episode.reward.valid:
        return None, ["the episode was not graded"]
    failures = episode.grade.failures if episode.grade else []
    return episode.reward.value, [f"{failure.test}: {failure.cause}" for failure in failures]


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
