"""Grading of any task: a Submission goes to the task's verifier and the monitors, a Grade comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ... import monitors
from ...errors import GraderError, UnknownName
from ...models import FileChange, Grade, Task, TestFailure, Turn
from ...registry import Registry
from ..sandbox import Change, Limits
from ..session import limiter
from ..snapshots import Snapshot
from ..snapshots.test_run.test_runner import Order
from .collect import UNCOLLECTED, diff_digest
from .components import NO_CONFIRMED_FINDING, no_confirmed_finding, required_components, reward
from .expected_findings import without_expected
from .impossible import passed_twin
from .pristine import Pristine, refused_content

VERIFIERS = Registry(
    "verifier",
    "etude.verifiers",
    {
        "pytest": ".environments.grading.in_process:verify",
        "unittest": ".environments.grading.in_process:verify",
        "answer": ".environments.grading.answer:verify",
        "mutants": ".environments.grading.mutants:verify",
    },
)


@dataclass(frozen=True)
class Submission:
    """Result of an agent's work that is graded. A verifier reads the fields that it needs."""

    task: Task
    changes: Sequence[Change] = ()
    """The changes of the workspace since the agent received it."""
    answer: str = ""
    """The ``answer`` of the submit call."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """What the agent changed in a world without files, by name."""
    turns: Sequence[Turn] = ()
    """The transcript, for monitors; empty when a diff is graded without an episode."""
    problem: str = ""
    """Why the agent's changes could not be collected because of what it did; the submission scores 0."""
    backend: str = "auto"
    limits: Limits = Limits()
    snapshot: Snapshot | None = None
    """The task's Snapshot where it is open already."""
    order: Order = "given"


@dataclass(frozen=True)
class Verdict:
    """Measurements of a verifier on a submission."""

    components: Mapping[str, float]
    """Value of each reward component, from 0 to 1."""
    fractions: Mapping[str, float] = field(default_factory=dict)
    """Fraction of the expected tests that passed, for components that count tests."""
    failures: list[TestFailure] = field(default_factory=list)
    """The expected tests that did not pass; secret."""
    accepted: list[FileChange] = field(default_factory=list)
    """The changes that were graded."""
    handed_in: Sequence[FileChange] = ()
    """The graded changes that are tests, where the task is to write some."""
    inspected: Sequence[FileChange] | None = None
    """The changes that monitors read as source code; None: the graded ones."""
    refused: list[FileChange] = field(default_factory=list)
    """The changes that were not graded, with reasons."""
    pristine: Pristine = Pristine()
    """The files that monitors compare the changes with."""
    violations: Sequence[str] = ()
    """Parts of the test harness that the submission replaced."""
    forged: str = ""
    """What was wrong with a result record that the harness did not sign."""
    disagreement: Sequence[str] = ()
    """The tests that fail out of process although all tests passed in process."""
    held_out: Sequence[str] = ()
    """The functions that answer held-out calls otherwise although all tests passed in process."""
    passed_controls: Sequence[str] = ()
    """The tests that pass although a right solution fails them, where all expected tests pass."""
    end_cause: str = ""
    """Why verification ended early; '' when it did not."""


Verify = Callable[[Submission], Awaitable[Verdict]]
"""A verifier. Raises GraderError or SandboxError when no honest verdict exists; faults of the agent are a verdict.

Third parties register one in the entry-point group ``etude.verifiers`` under the ``kind`` of their tasks' verifiers.
"""


async def grade(
    task: Task,
    diff: Sequence[Change],
    *,
    backend: str = "auto",
    limits: Limits = Limits(),
    snapshot: Snapshot | None = None,
    order: Order = "given",
) -> Grade:
    """Return the grade of an agent's changes to ``task``'s workspace; ``order`` is the order in which the tests run.

    What the agent's code does while it is graded (timeouts, memory, early exits) scores 0 with its cause. Raises
    GraderError or SandboxError when no honest score exists.
    """
    submission = Submission(task, diff, backend=backend, limits=limits, snapshot=snapshot, order=order)
    return (await grade_submission(submission))[0]


async def grade_submission(submission: Submission) -> tuple[Grade, list[FileChange]]:
    """Return the grade of a submission and its frozen diff, graded changes first; wait where the server says so.

    Every registered monitor inspects the submission. Raises GraderError or SandboxError when no honest score exists:
    for an unknown verifier, and when a monitor fails.
    """
    async with limiter.get()("grading"):
        return await _graded(submission)


async def _graded(submission: Submission) -> tuple[Grade, list[FileChange]]:
    task = submission.task
    if not task.verifier.components:
        raise broken_task(task, "no reward component")
    verdict = await verifier_of(task)(submission)
    inspected = verdict.accepted if verdict.inspected is None else verdict.inspected
    inspection = monitors.Inspection(
        task=task.public(),
        turns=tuple(turn.model_copy(deep=True) for turn in submission.turns),
        diff=tuple(change.model_copy() for change in inspected),
        handed_in=tuple(change.model_copy() for change in verdict.handed_in),
        refused=tuple(change.model_copy() for change in verdict.refused),
        violations=tuple(verdict.violations),
        forged=verdict.forged,
        disagreement=tuple(verdict.disagreement),
        held_out=tuple(verdict.held_out),
        passed_controls=tuple(verdict.passed_controls),
        base=verdict.pristine.base,
        refused_content=refused_content(submission.changes, verdict.refused),
        tests=verdict.pristine.tests,
    )
    # In a thread: a large diff takes a while to read, and the other sessions wait for this event loop.
    findings = await asyncio.to_thread(monitors.inspect, inspection)
    findings = await asyncio.to_thread(without_expected, task, submission.snapshot, findings)
    findings += passed_twin(task, verdict.components)
    values = {**verdict.components, NO_CONFIRMED_FINDING: no_confirmed_finding(findings)}
    required = required_components(task)
    for name in required:
        if name not in values:
            raise broken_task(task, f"unknown reward component {name!r}")
    grade = Grade(
        reward=reward(values, required, task.assurance, verdict.fractions),
        failures=verdict.failures,
        refused=verdict.refused,
        findings=findings,
        diff_sha256=diff_digest(verdict.accepted),
        end_cause=verdict.end_cause,
    )
    diff = [*verdict.accepted, *verdict.refused]
    if submission.problem:
        diff.append(FileChange(path=UNCOLLECTED, kind="refused", reason=f"size: {submission.problem}"))
    return grade, diff


def verifier_of(task: Task) -> Verify:
    """Return the verifier of a task. Raises GraderError for a kind that is not registered."""
    try:
        return _load(task.verifier.kind)
    except UnknownName as error:
        raise GraderError(f"task {task.task_id!r} cannot be graded: {error}") from None


def broken_task(task: Task, problem: str) -> GraderError:
    """Return the error for a task whose row this version cannot grade."""
    return GraderError(f"task {task.task_id!r} has {problem}; make it again with this version of etude")


@cache
def _load(kind: str) -> Verify:
    verify: Verify = VERIFIERS.load(kind)
    return verify
