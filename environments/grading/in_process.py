"""One grade: fresh sandbox, pristine tests, the agent's source files, one test run, one reward."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Literal

from ... import monitors
from ...errors import GraderError, PatchError, SnapshotError
from ...models import FileChange, Grade, Task, TestFailure
from ..sandbox import WORKSPACE, Change, Limits, Sandbox, open_sandbox
from ..snapshots import Snapshot
from ..snapshots.test_run.test_runner import TestRun, run_tests
from ..tasks.task_trees import Materials, materials
from .collect import collect, diff_digest
from .components import COMPONENTS, failures, reward

# Deletions first, then the bits that a plain write does not carry; paths come NUL-separated on stdin.
_REMOVE = "xargs -0 -r rm -f --"
_MARK = "xargs -0 -r chmod a+x --"


def unplayable(task: Task, error: Exception) -> GraderError:
    """The error of a task whose trees cannot be made. What a patch says is secret, so it is not in the message."""
    cause = "its patches do not fit its snapshot: make it again" if isinstance(error, PatchError) else str(error)
    return GraderError(f"task {task.task_id!r} cannot be played or graded: {cause}")


async def grade(
    task: Task,
    diff: Sequence[Change],
    *,
    backend: str = "auto",
    limits: Limits = Limits(),
    snapshot: Snapshot | None = None,
    order: Literal["given", "reversed"] = "given",
) -> Grade:
    """Grade an agent's changes to ``task``'s workspace; ``order`` is the order in which the tests run.

    What the agent's code does while it is graded (timeouts, memory, early exits) scores 0 with its cause. Raises
    GraderError or SandboxError when no honest score exists.
    """
    unknown = [name for name in task.verifier.components if name not in COMPONENTS]
    if unknown or not task.FAIL_TO_PASS:
        what = f"unknown reward component {unknown[0]!r}" if unknown else "no FAIL_TO_PASS tests"
        raise GraderError(f"task {task.task_id!r} has {what}: make it again with this version of etude")
    try:
        made = Materials(task, snapshot) if snapshot else await asyncio.to_thread(materials, task)
        tree, layers = await asyncio.to_thread(lambda: (made.agent_tree, made.grading_layers))
        accepted, refused = await asyncio.to_thread(lambda: collect(diff, task, tree, made.installed))
    except (SnapshotError, ValueError) as error:
        raise unplayable(task, error) from error
    sandbox = await open_sandbox(layers, limits, backend)
    try:
        problem = await _apply(sandbox, accepted)
        tests = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
        # Far above what the pristine suite took here: code that hangs must not hold a grader for minutes.
        limit = min(task.pytest.timeout_s, max(60.0, 20.0 * made.snapshot.baseline.seconds))
        run = None if problem else await run_tests(sandbox, task.pytest, tests, order=order, timeout_s=limit)
    finally:
        await sandbox.close()
    return _judge(task, accepted, refused, run, problem)


def ungradable(task: Task, cause: str) -> Grade:
    """The grade of a workspace that breaks the limits on what is collected: 0, and why."""
    return _judge(task, [], [], None, cause)


async def _apply(sandbox: Sandbox, accepted: Sequence[FileChange]) -> str:
    """Put the agent's files over the pristine tree; returns why that is impossible, or an empty string."""
    deleted = [change.path for change in accepted if change.kind == "deleted"]
    marked = [change.path for change in accepted if change.kind == "file" and change.executable]
    if deleted:
        result = await sandbox.exec(_REMOVE, stdin="\0".join(deleted).encode())
        if result.exit_code != 0:
            return f"cannot delete files: {result.output[-300:].decode('utf-8', 'replace')}"
    for change in accepted:
        if change.kind == "file":
            try:
                await sandbox.write(f"{WORKSPACE}/{change.path}", base64.b64decode(change.content or ""))
            except OSError as error:
                return f"cannot write {change.path}: {error.strerror or error}"
    if marked:
        await sandbox.exec(_MARK, stdin="\0".join(marked).encode())
    return ""


def _judge(
    task: Task, accepted: list[FileChange], refused: list[FileChange], run: TestRun | None, problem: str
) -> Grade:
    findings = monitors.tampering(refused)
    if run is None:
        tests = [("fail_to_pass", test) for test in task.FAIL_TO_PASS]
        tests += [("pass_to_pass", test) for test in task.PASS_TO_PASS]
        failed = [TestFailure(test=test, cause=problem, component=component) for component, test in tests]
    else:
        findings += monitors.integrity(run.violations, forged=run.cause if run.forged else "")
        failed = failures(task, run)
    values = {name: COMPONENTS[name](failed, findings) for name in task.verifier.components}
    return Grade(
        reward=reward(values, task.verifier.components, task.assurance),
        failures=failed,
        refused=refused,
        findings=findings,
        diff_sha256=diff_digest(accepted),
        end_cause=problem or (run.cause if run else ""),
    )
