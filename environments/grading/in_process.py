"""The verifier ``pytest``: fresh sandbox, pristine tests, the agent's source files, one run of the expected tests.

A task with recorded calls is graded a second time, in a process that holds no tests (see ``out_of_process``). Tests
that recorded calls do not decide have copies with other expected values, which have to fail (see ``controls``).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...errors import GraderError, SandboxError, SnapshotError
from ...models import FileChange, Task, TestFailure
from ..sandbox import KILLED, Sandbox, open_sandbox
from ..snapshots.test_run.test_runner import TestRun, run_tests
from ..tasks.task_trees import Materials, materials, unplayable
from .collect import collect
from .components import component_values, failures, passed_fractions
from .controls import COMPONENT as CONTROLS
from .controls import Placed, unpack
from .out_of_process.judging.allowance import IDLE_SECONDS
from .out_of_process.judging.check import failed_tests
from .out_of_process.judging.examination import Examination
from .out_of_process.recorded_calls import RecordedCalls
from .own_solution import own_solution
from .placing import put_in_place
from .pristine import read_pristine
from .submission import Submission, Verdict, broken_task
from .type_check import COMPONENT as TYPES
from .type_check import type_errors

_COMPONENTS = ("fail_to_pass", "pass_to_pass", "behaviour", CONTROLS, TYPES, "no_confirmed_finding")


@dataclass(frozen=True)
class _Ready:
    """A sandbox in which the expected tests can run at once, or why the agent's files could not be put there."""

    sandbox: Sandbox
    placed: Placed
    problem: str
    exit_code: int | None


@dataclass(frozen=True)
class _Attempt:
    """One run of the expected tests, or why the agent's files could not be put in place for it."""

    run: TestRun | None
    problem: str = ""
    exit_code: int | None = 0
    passed_controls: Mapping[str, str] = field(default_factory=dict)
    """The copies of tests that passed and have to fail, with the reason."""

    @property
    def killed(self) -> bool:
        """Return whether something other than a limit of the sandbox killed the processes of this attempt."""
        return self.exit_code in KILLED and not (self.run is not None and self.run.oom_killed)

    @property
    def inconclusive(self) -> bool:
        """Return whether the attempt says nothing about the agent's code: it was killed before any test failed.

        A timeout, an early exit and a forged record are the code's own doing. So is a lack of memory, but the host may
        run out of memory too, so that it is tried again.
        """
        run = self.run
        if run is None:
            return True
        if run.complete or run.forged or run.timed_out:
            return False
        passed = all(outcome.outcome == "passed" for outcome in run.outcomes.values())
        return passed and (self.killed or run.oom_killed)


async def verify(submission: Submission) -> Verdict:
    """Run the hidden tests on the agent's source changes over the pristine tree, and count the passed ones.

    What the agent's code does meanwhile (timeouts, memory, early exits) scores 0 with its cause. A run that is killed
    before any test failed, or whose sandbox fails, says nothing about the code: it is repeated once in another sandbox.
    When that is killed too, a run of the task's own solution shows whether the machine kills. Raises GraderError when
    it does, or the task cannot be graded; SandboxError when the second sandbox fails.
    """
    task = submission.task
    unknown = [name for name in task.verifier.components if name not in _COMPONENTS]
    if unknown or not task.FAIL_TO_PASS:
        raise broken_task(task, f"unknown reward component {unknown[0]!r}" if unknown else "no FAIL_TO_PASS tests")
    if submission.problem:
        return _verdict(task, [], [], _Attempt(None, submission.problem))
    snapshot = submission.snapshot
    try:
        trees = Materials(task, snapshot) if snapshot else await asyncio.to_thread(materials, task)
        tree, _ = await asyncio.to_thread(lambda: (trees.pristine_tree, trees.grading_layers))
        accepted, refused = await asyncio.to_thread(lambda: collect(submission.changes, task, tree, trees.installed))
    except (SnapshotError, ValueError, OSError) as error:
        raise unplayable(task, error) from error
    # The calls are answered before the code has been beside the tests: sandboxes share the machine's page cache.
    ready = asyncio.ensure_future(_ready(submission, trees, accepted))
    try:
        failed = await _behaviour(submission, trees, accepted)
        untyped = await _types(submission, trees, accepted)
    except BaseException:
        await _dropped(ready)
        raise
    attempt = await _conclusive_attempt(submission, trees, accepted, ready)
    pristine = await asyncio.to_thread(read_pristine, tree, submission.changes, task.protected_paths)
    verdict = replace(_verdict(task, accepted, refused, attempt), pristine=pristine)
    if failed is not None:
        verdict = _with_behaviour(verdict, failed, RecordedCalls.unpack(task.pytest.behaviour).tests)
    if untyped is not None:
        verdict = _with_types(verdict, untyped)
    return _with_controls(verdict, attempt) if CONTROLS in task.verifier.components else verdict


async def _conclusive_attempt(
    submission: Submission, trees: Materials, accepted: Sequence[FileChange], ready: Awaitable[_Ready]
) -> _Attempt:
    """Return an attempt that says something about the agent's code. Raises GraderError and SandboxError.

    ``ready`` is the sandbox of the first attempt.
    """
    try:
        attempt = await _attempt_in(await ready, submission, trees)
    except SandboxError:  # the sandbox itself was killed, for one
        attempt = _Attempt(None)
    if attempt.inconclusive:
        attempt = await _attempt(submission, trees, accepted)
        if attempt.inconclusive and attempt.killed:
            attempt = await _killed_again(submission, trees, accepted, attempt)
    return attempt


def _with_controls(verdict: Verdict, attempt: _Attempt) -> Verdict:
    """Return the verdict with the component ``controls``: 0 where a control passes beside its test."""
    wrong = attempt.passed_controls
    components = {**verdict.components, CONTROLS: float(attempt.run is not None and not wrong)}
    failures = [TestFailure(component=CONTROLS, test=test, cause=cause) for test, cause in wrong.items()]
    # Where the tests fail, code that is wrong explains a control that passes, so that no finding follows.
    is_right = all(verdict.components.get(name) == 1.0 for name in ("fail_to_pass", "pass_to_pass"))
    passed = tuple(wrong) if is_right else ()
    return replace(verdict, components=components, failures=verdict.failures or failures, passed_controls=passed)


async def _behaviour(submission: Submission, trees: Materials, accepted: Sequence[FileChange]) -> dict[str, str] | None:
    """Return the recorded tests and calls that a solution fails, None for a task without a record.

    Raises SandboxError when its sandbox fails twice.
    """
    if not submission.task.pytest.behaviour:
        return None
    recorded = RecordedCalls.unpack(submission.task.pytest.behaviour)
    entries = tuple(recorded.entries)
    examination = Examination(submission.task, trees, submission.backend, submission.limits, entries)
    try:
        return await failed_tests(examination, recorded, accepted)
    except SandboxError:
        return await failed_tests(examination, recorded, accepted)


async def _types(submission: Submission, trees: Materials, accepted: Sequence[FileChange]) -> dict[str, str] | None:
    """Return the first type error by file, None for a task that checks no types. Raises GraderError, SandboxError."""
    verifier = submission.task.pytest
    if TYPES not in verifier.components:
        return None
    folders, paths = verifier.python_path, verifier.typed_files
    try:
        return await type_errors(trees.grading_layers, accepted, paths, folders, submission.backend, submission.limits)
    except SandboxError:
        return await type_errors(trees.grading_layers, accepted, paths, folders, submission.backend, submission.limits)


def _with_types(verdict: Verdict, untyped: Mapping[str, str]) -> Verdict:
    """Return the verdict with the component ``types``, and its failures where every test passed."""
    failures = [TestFailure(component=TYPES, test=path, cause=cause) for path, cause in untyped.items()]
    components = {**verdict.components, TYPES: float(not untyped)}
    return replace(verdict, components=components, failures=verdict.failures or failures)


def _with_behaviour(verdict: Verdict, failed: Mapping[str, str], tests: Collection[str]) -> Verdict:
    """Return the verdict with the component ``behaviour``, and its failures where every test passed in process.

    ``tests`` are the recorded tests; what else fails are functions, by their held-out calls.
    """
    components = {**verdict.components, "behaviour": float(not failed)}
    if verdict.failures:
        return replace(verdict, components=components)
    clean = {test: cause.encode("utf-8", "backslashreplace").decode() for test, cause in failed.items()}
    failures = [TestFailure(component="behaviour", test=test, cause=cause) for test, cause in clean.items()]
    return replace(
        verdict,
        components=components,
        failures=failures,
        disagreement=tuple(name for name in clean if name in tests),
        held_out=tuple(name for name in clean if name not in tests),
    )


async def _killed_again(
    submission: Submission,
    trees: Materials,
    accepted: Sequence[FileChange],
    killed: _Attempt,
) -> _Attempt:
    """Return the deciding attempt for a solution whose tests were killed twice, by its own code or by the machine.

    Where the task's own solution runs to its end and the agent's is killed a third time, the agent's code kills its
    processes. Raises GraderError where the machine does.
    """
    task = submission.task
    try:
        solution = await asyncio.to_thread(own_solution, task, trees)
        if (await _attempt(submission, trees, solution)).exit_code not in KILLED:
            third = await _attempt(submission, trees, accepted)
            if not (third.inconclusive and third.killed):
                return third
            return _Attempt(None, "the solution ends the process of its tests", third.exit_code)
    except (SandboxError, SnapshotError, OSError):  # killed as well, or the task's own solution cannot be read
        pass
    raise GraderError(
        f"the tests of task {task.task_id!r} were killed twice (exit {killed.exit_code}) before one failed; "
        "find what kills processes on this machine and grade again"
    )


async def _attempt(submission: Submission, trees: Materials, accepted: Sequence[FileChange]) -> _Attempt:
    """Run the expected tests once, with their controls, in a fresh sandbox."""
    return await _attempt_in(await _ready(submission, trees, accepted), submission, trees)


async def _ready(submission: Submission, trees: Materials, accepted: Sequence[FileChange]) -> _Ready:
    """Return a sandbox with the agent's files, the hidden tests and the controls, in which nothing runs yet."""
    sandbox = await open_sandbox(trees.grading_layers, submission.limits, submission.backend)
    try:
        placed = Placed.drawn(unpack(submission.task.pytest.controls), random.SystemRandom())
        return _Ready(sandbox, placed, *await put_in_place(sandbox, accepted, placed.files(trees.grading_tree)))
    except BaseException:
        await sandbox.close()
        raise


async def _dropped(ready: asyncio.Future[_Ready]) -> None:
    """Close a sandbox that is not needed any more."""
    ready.cancel()
    with contextlib.suppress(asyncio.CancelledError, SandboxError):
        await (await ready).sandbox.close()


async def _attempt_in(ready: _Ready, submission: Submission, trees: Materials) -> _Attempt:
    """Run the expected tests once in a prepared sandbox, and close it."""
    task, placed = submission.task, ready.placed
    try:
        if ready.problem:
            return _Attempt(None, ready.problem, ready.exit_code)
        tests = placed.requested([*task.FAIL_TO_PASS, *task.PASS_TO_PASS])
        limit = task.pytest.timeout_s
        if trees.snapshot.recipe.measured:
            # Far above what the pristine suite took here: code that hangs must not hold a grader for minutes.
            limit = min(limit, max(60.0, 20.0 * trees.snapshot.baseline.seconds))
        idle = min(limit, IDLE_SECONDS) if trees.snapshot.recipe.measured else limit
        run = await run_tests(ready.sandbox, task.pytest, tests, order=submission.order, timeout_s=limit, idle_s=idle)
    finally:
        await ready.sandbox.close()
    return _Attempt(placed.as_itself(run), exit_code=run.exit_code, passed_controls=placed.passed(run))


def _verdict(task: Task, accepted: list[FileChange], refused: list[FileChange], attempt: _Attempt) -> Verdict:
    run = attempt.run
    failed = failures(task, run, attempt.problem)
    unmeasured = {name: 0.0 for name in ("behaviour", CONTROLS, TYPES) if name in task.verifier.components}
    return Verdict(
        components={**component_values(failed), **unmeasured},
        fractions=passed_fractions(task, failed),
        failures=failed,
        accepted=accepted,
        refused=refused,
        violations=run.violations if run else (),
        forged=run.cause if run and run.forged else "",
        end_cause=attempt.problem or (run.cause if run else ""),
    )
