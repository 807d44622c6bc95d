"""The verifier ``mutants``: tests that the agent wrote, run on right and on wrong versions of the source.

The workspace itself may be a right version (tests are missing) or a wrong one (it has a bug). Only the file that the
task names is graded; everything else, conftests and configuration too, is as the task has it. The versions run in an
order that is drawn for each grade, so that a test cannot know which one it is run on. Right versions besides the
original are the same code with other names, another layout and dead statements: a test that compares the source itself
with what the agent saw fails there. Nothing here proves that a test does not look at the source: a test that undoes all
such changes can still score, so such tasks have assurance ``in_process``.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import lzma
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import GraderError, SandboxError, SnapshotError
from ...models import FileChange, MutantsVerifier, TestFailure
from ..sandbox import Sandbox, open_sandbox
from ..snapshots import Snapshot
from ..snapshots.test_run.test_runner import Order, TestRun
from ..snapshots.test_run.versions.version_runs import run_versions
from ..tasks.task_trees import Materials, materials, unplayable
from .collect import collect
from .placing import put_in_place
from .pristine import read_pristine
from .submission import Submission, Verdict, broken_task

PASS, NOTICE = "tests_pass", "mistakes_noticed"
"""Reward components: the tests pass on right versions; they fail on enough of the wrong ones."""
_BROKEN_TESTS = ("SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError")
"""Exceptions that do not show that a test noticed a mistake."""


@dataclass(frozen=True)
class Version:
    """One version of the source."""

    is_right: bool
    """Whether the tests must pass on it."""
    files: Mapping[str, str | None]
    """Content of the files that may differ from the workspace; None for an absent one."""


def pack(versions: Sequence[Version]) -> str:
    """Return versions as text for a row."""
    fields = [{"is_right": version.is_right, "files": dict(version.files)} for version in versions]
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return base64.b85encode(lzma.compress(text.encode())).decode()


@functools.lru_cache(maxsize=64)
def unpack(text: str) -> tuple[Version, ...]:
    """Return the versions that ``pack`` wrote. Raises GraderError for anything else."""
    try:
        fields = json.loads(lzma.decompress(base64.b85decode(text)))
        versions = tuple(Version(bool(item["is_right"]), dict(item["files"])) for item in fields)
        if len({frozenset(version.files) for version in versions}) != 1:
            raise ValueError("every version states the same files")
    except (ValueError, TypeError, KeyError, lzma.LZMAError) as error:
        raise GraderError("the task's versions are damaged; make the task again") from error
    return versions


async def verify(submission: Submission) -> Verdict:
    """Run the agent's tests on all versions in two fresh sandboxes, in two orders.

    Wrong versions run in both only where each of them must be noticed. What the tests do meanwhile (timeouts,
    early exits) scores 0 with its cause. Raises GraderError when the task cannot be graded, SandboxError when a sandbox
    fails twice.
    """
    task, verifier = submission.task, submission.task.verifier
    if not isinstance(verifier, MutantsVerifier):
        raise broken_task(task, "no versions to run tests on")
    versions = unpack(verifier.versions)
    if not {True, False} == {version.is_right for version in versions}:
        raise broken_task(task, "no right version or no wrong one")
    if submission.problem:
        return _unmeasured(submission.problem)
    try:
        trees = (
            Materials(task, submission.snapshot) if submission.snapshot else await asyncio.to_thread(materials, task)
        )
        tree, _ = await asyncio.to_thread(lambda: (trees.pristine_tree, trees.grading_layers))
        accepted, refused = await asyncio.to_thread(lambda: collect(submission.changes, task, tree, trees.installed))
    except (SnapshotError, ValueError, OSError) as error:
        raise unplayable(task, error) from error
    pristine = await asyncio.to_thread(read_pristine, tree, submission.changes, task.protected_paths)
    if not any(change.path == verifier.test_file and change.kind == "file" for change in accepted):
        verdict = _unmeasured(f"{verifier.test_file} was not written")
    else:
        try:
            verdict = await _measured(submission, trees, accepted, verifier, versions)
        except SandboxError:  # the sandbox itself was killed, for one
            verdict = await _measured(submission, trees, accepted, verifier, versions)
    # Most monitors look for code that knows of tests and of their results: that is what tests are made of.
    return replace(verdict, accepted=accepted, handed_in=accepted, inspected=(), refused=refused, pristine=pristine)


async def _measured(
    submission: Submission,
    trees: Materials,
    accepted: Sequence[FileChange],
    verifier: MutantsVerifier,
    versions: Sequence[Version],
) -> Verdict:
    """Return the verdict on tests that were handed in. Raises SandboxError."""
    order, other = submission.order, _reversed(submission.order)
    # Most useless tests fail on a right version already, so that the wrong ones need not be run.
    some = versions if verifier.least_share == 1.0 else [version for version in versions if version.is_right]
    first = await _round(submission, trees, accepted, verifier, some, other, hash_seed=1)
    if not all(first.components.values()):
        return first
    return await _round(submission, trees, accepted, verifier, versions, order)


def _reversed(order: Order) -> Order:
    return "reversed" if order == "given" else "given"


async def _round(
    submission: Submission,
    trees: Materials,
    accepted: Sequence[FileChange],
    verifier: MutantsVerifier,
    versions: Sequence[Version],
    order: Order,
    hash_seed: int = 0,
) -> Verdict:
    """Run the tests on versions in a fresh sandbox and a drawn order of versions."""
    drawn = random.SystemRandom().sample(versions, len(versions))
    sandbox = await open_sandbox(trees.grading_layers, submission.limits, submission.backend)
    try:
        problem, _ = await put_in_place(sandbox, accepted)
        if problem:
            return _unmeasured(problem)
        runs = await runs_on(
            sandbox, trees.snapshot, verifier.test_file, drawn, verifier.timeout_s, order=order, hash_seed=hash_seed
        )
    finally:
        await sandbox.close()
    return judged(drawn, runs, verifier.least_share)


async def runs_on(
    sandbox: Sandbox,
    snapshot: Snapshot,
    test_file: str,
    versions: Sequence[Version],
    timeout_s: float,
    *,
    order: Order = "given",
    hash_seed: int = 0,
) -> list[TestRun]:
    """Return the runs of a test file on versions, in their order. Raises SandboxError."""
    paths = sorted({path for version in versions for path in version.files})
    settings = snapshot.verifier.model_copy(update={"args": [test_file]})
    contents = [{path: _content(version, path) for path in paths} for version in versions]
    return await run_versions(sandbox, settings, contents, order=order, hash_seed=hash_seed, timeout_s=timeout_s)


def _content(version: Version, path: str) -> bytes | None:
    text = version.files[path]
    return None if text is None else text.encode("utf-8", "surrogateescape")


def judged(versions: Sequence[Version], runs: Sequence[TestRun], least_share: float) -> Verdict:
    """Return the verdict on runs of the same tests on versions, in the same order."""
    right = [run for version, run in zip(versions, runs, strict=True) if version.is_right]
    wrong = [run for version, run in zip(versions, runs, strict=True) if not version.is_right]
    causes = [cause for run in right if (cause := not_passed(run))]
    if not causes and len({tuple(sorted(run.order)) for run in right}) > 1:
        causes = [("", "other tests are collected on another version of the same code")]
    tests = {test for run in right for test in run.order}
    missed = sum(not notices(run, tests) for run in wrong)
    share = 1.0 - missed / len(wrong) if wrong else float(not causes)
    enough = share >= least_share
    failures = [TestFailure(test=test, cause=cause, component=PASS) for test, cause in dict.fromkeys(causes)]
    if not enough and wrong:
        text = f"the tests pass on {missed} of {len(wrong)} wrong versions"
        failures.append(TestFailure(test="", cause=text, component=NOTICE))
    return Verdict(
        components={PASS: float(not causes), NOTICE: float(enough)},
        fractions={NOTICE: share},
        failures=failures,
        violations=tuple(dict.fromkeys(item for run in runs for item in run.violations)),
        forged=next((run.cause for run in runs if run.forged), ""),
        end_cause=next((run.cause for run in right if not run.complete), ""),
    )


def not_passed(run: TestRun) -> tuple[str, str] | None:
    """Return the first test of a run that did not pass, and why; None where there are tests and all of them passed."""
    for path, message in run.collect_errors.items():
        return path, f"not collected: {message.splitlines()[-1] if message else 'pytest gives no reason'}"
    for test, outcome in run.outcomes.items():
        if outcome.outcome != "passed":
            detail = ": ".join(part for part in (outcome.exception, outcome.message) if part)
            return test, f"{outcome.outcome} on a right version: {detail}"
    if run.repeated:
        return run.repeated[0], "reported more than once"
    if not run.complete:
        return run.running, run.cause
    return None if run.order else ("", "there is no test in the file")


def notices(run: TestRun, tests: set[str]) -> bool:
    """Return whether one of the ``tests`` fails in a run, by an assertion or by an exception of the code.

    A test that does not end notices the mistake too. Errors of the file itself do not count.
    """
    if run.collect_errors or run.forged:
        return False
    if not run.complete and run.running in tests:
        return True
    return any(
        outcome.outcome in ("failed", "error") and outcome.exception not in _BROKEN_TESTS
        for test, outcome in run.outcomes.items()
        if test in tests
    )


def _unmeasured(problem: str) -> Verdict:
    failure = TestFailure(test="", cause=problem, component=PASS)
    return Verdict({PASS: 0.0, NOTICE: 0.0}, {NOTICE: 0.0}, [failure], end_cause=problem)
