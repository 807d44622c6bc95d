"""Re-validation of one instance: its tests run three times before and three times after the official solution.

The official labels decide nothing. A test counts only when all runs agree, in two orders, each run in a sandbox of its
own without network.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Literal

from ....environments.sandbox import Limits, open_sandbox
from ....environments.snapshots import Snapshot, scratch_tree
from ....environments.snapshots.builder.specification import BuiltEnvironment
from ....environments.snapshots.builder.specified import build_commit
from ....environments.snapshots.source.clones import Clones
from ....environments.snapshots.test_run.placed_files import write_files
from ....environments.snapshots.test_run.test_runner import TestRun, run_tests
from ....errors import PatchError, SnapshotError
from ....models import PytestVerifier, UnittestVerifier
from ...validation.checks.stability import RUNS
from .instance import Instance
from .labels import Difference, Labels, compare, measure_labels, named_tests, needs_network
from .solution import solved_files
from .specifications import specification

Outcome = Literal["valid", "relabelled", "flaky", "gold_fails", "needs_network", "needs_build"]
_MISSING = re.compile(r"ModuleNotFoundError|ImportError")
LIMITS = Limits(memory=4 << 30, disk=1 << 30, processes=512, cpus=2.0)


@dataclass(frozen=True)
class Verdict:
    """What re-validation says about one instance. All verdicts but the first two are reasons to leave it out."""

    instance_id: str
    verdict: Outcome
    """``valid``: the official labels reproduce. ``relabelled``: other labels hold, which replace them. ``flaky``: the
    tests of the fix disagree with themselves. ``gold_fails``: no test fails before and passes after. ``needs_network``:
    the tests of the fix need a connection. ``needs_build``: the environment or the tests cannot be made to run here."""
    evidence: str = ""
    """Why, in one line."""
    fail_to_pass: list[str] = field(default_factory=list)
    pass_to_pass: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    official_fail_to_pass: int = 0
    official_pass_to_pass: int = 0
    fail_to_pass_difference: Difference = Difference()
    pass_to_pass_difference: Difference = Difference()
    seconds: float = 0.0
    """Wall time of the six runs and of making the tree."""
    cpu_seconds: float = 0.0
    """CPU time of the slowest run."""
    environment: str = ""
    """Name of the environment: repository, version and Python."""
    build_seconds: float = 0.0
    build_bytes: int = 0

    @property
    def usable(self) -> bool:
        """Return whether the instance becomes a task."""
        return self.verdict in ("valid", "relabelled")


@dataclass(frozen=True)
class Revalidated:
    """A verdict, and what a task is made of; None where nothing could be built."""

    verdict: Verdict
    snapshot: Snapshot | None = None
    verifier: PytestVerifier | None = None


async def revalidate(instance: Instance, clones: Clones, *, timeout_s: float, backend: str = "auto") -> Revalidated:
    """Build the instance's environment and run its tests. ``timeout_s`` is the CPU time of one run.

    The environment is the shared one of the version; where its tests miss a module, one of the row's own commit.
    Raises SandboxError when the machine fails; what the instance lacks is a verdict.
    """
    setup = instance.setup_commit or instance.base_commit
    shared = await _attempt(instance, clones, setup, backend, timeout_s)
    verdict = shared.verdict
    if verdict.usable or setup == instance.base_commit or not _MISSING.search(verdict.evidence):
        return shared
    return await _attempt(instance, clones, instance.base_commit, backend, timeout_s)


async def _attempt(instance: Instance, clones: Clones, setup: str, backend: str, timeout_s: float) -> Revalidated:
    """Validate in the environment that is built at the commit ``setup``."""
    started = time.monotonic()
    draft = Verdict(
        instance.instance_id,
        "needs_build",
        official_fail_to_pass=len(instance.fail_to_pass),
        official_pass_to_pass=len(instance.pass_to_pass),
    )
    try:
        stated = specification(instance)
        clone = await asyncio.to_thread(clones.find, instance.repo)
        snapshot, built = await asyncio.to_thread(build_commit, stated, clone, instance.base_commit, setup)
    except SnapshotError as error:  # the host's own path stays out of what is recorded
        text = _line(error).replace(str(clones.folder), "the folder of clones")
        return Revalidated(replace(draft, evidence=text))
    draft = _with_build(draft, instance, snapshot, built)
    verifier = _verifier(instance, snapshot, timeout_s)
    if not verifier.args:
        return Revalidated(replace(draft, evidence="the test patch changes no Python test file"), snapshot, verifier)
    try:
        solution = await asyncio.to_thread(solved_files, snapshot.tree, instance.patch, instance.workspace_patch)
        before, after = await _runs(
            snapshot, verifier, backend, instance.workspace_patch + instance.test_patch, solution
        )
    except PatchError as error:
        verdict = replace(draft, verdict="gold_fails", evidence=f"a patch of the row does not fit: {_line(error)}")
        return Revalidated(verdict, snapshot, verifier)
    cpu = max(run.cpu_seconds for run in (*before, *after))
    verdict = judge(draft, instance, before, after)
    verdict = replace(verdict, seconds=round(time.monotonic() - started, 1), cpu_seconds=round(cpu, 1))
    limit = min(timeout_s, max(120.0, 10.0 * cpu))
    return Revalidated(verdict, snapshot, verifier.model_copy(update={"timeout_s": round(limit)}))


def judge(draft: Verdict, instance: Instance, before: Sequence[TestRun], after: Sequence[TestRun]) -> Verdict:
    """Return the verdict that the runs give."""
    labels = measure_labels(before, after)
    tests_to_fail = compare(instance.fail_to_pass, labels.fail_to_pass, before[0], after[0])
    tests_to_pass = compare(instance.pass_to_pass, labels.pass_to_pass, before[0], after[0])
    measured = replace(
        draft,
        fail_to_pass=labels.fail_to_pass,
        pass_to_pass=labels.pass_to_pass,
        flaky=labels.flaky,
        fail_to_pass_difference=tests_to_fail,
        pass_to_pass_difference=tests_to_pass,
    )
    verdict, evidence = _outcome(instance, labels, measured, before, after)
    return replace(measured, verdict=verdict, evidence=evidence)


def _outcome(
    instance: Instance, labels: Labels, measured: Verdict, before: Sequence[TestRun], after: Sequence[TestRun]
) -> tuple[Outcome, str]:
    broken = next((run for run in after if not run.complete), None) or next((r for r in before if r.forged), None)
    if broken is not None:
        return "needs_build", f"a run of the solved code does not end: {broken.cause}"
    stopped = next((run for run in before if run.timed_out), None)
    if stopped is not None:  # tests that were not reached would count as failing
        return "needs_build", f"a run of the code before the solution does not end: {stopped.cause}"
    official = set(named_tests(instance.fail_to_pass, after[0], before[0]))
    if not labels.fail_to_pass:
        if needs_network(after, official):
            return "needs_network", "with the solution, tests of the fix still fail for want of a connection"
        if official & set(labels.flaky):
            return "flaky", _why_flaky(min(official & set(labels.flaky)), before, after)
        return "gold_fails", _why_gold_fails(official, before, after)
    to_fail, to_pass = measured.fail_to_pass_difference, measured.pass_to_pass_difference
    if not (to_fail.not_reproduced or to_fail.unlisted or to_pass.not_reproduced):
        return "valid", ""
    parts = []
    for name, difference in (("FAIL_TO_PASS", to_fail), ("PASS_TO_PASS", to_pass)):
        if difference.not_reproduced:
            label, what = next(iter(difference.not_reproduced.items()))
            parts.append(f"{len(difference.not_reproduced)} of {name} do not reproduce, {label}: {what}")
    if to_fail.unlisted:
        parts.append(f"{len(to_fail.unlisted)} not in FAIL_TO_PASS, {to_fail.unlisted[0]}")
    return "relabelled", "; ".join(parts)


def _why_flaky(test: str, before: Sequence[TestRun], after: Sequence[TestRun]) -> str:
    """Return in which runs a test passes, and whether the order of the tests alone makes the difference."""
    marks = [
        " ".join("passes" if test in run.passed else "fails" for run in runs) for runs in (before, after)
    ]  # given, reversed, given with another hash seed
    same_order = [[test in run.passed for run in (runs[0], runs[2])] for runs in (before, after)]
    cause = (
        "depends on the order of the tests" if all(len(set(pair)) == 1 for pair in same_order) else "changes by itself"
    )
    return f"{test} {cause} (given, reversed, given: before {marks[0]}; after {marks[1]})"


def _why_gold_fails(official: set[str], before: Sequence[TestRun], after: Sequence[TestRun]) -> str:
    if not official:
        errors = after[0].collect_errors
        reason = next(iter(errors.values())).strip().splitlines()[-1][:200] if errors else "no test has that name"
        return f"none of the official FAIL_TO_PASS tests ran: {reason}"
    for test in sorted(official):
        outcome = after[0].outcomes.get(test)
        if outcome is None or outcome.outcome != "passed":
            what = "is missing" if outcome is None else f"{outcome.outcome} {outcome.exception} {outcome.message}"[:200]
            return f"with the solution, {test} {what}"
    return f"{min(official)} passes without the solution too"


async def _runs(
    snapshot: Snapshot, verifier: PytestVerifier, backend: str, changes: str, solution: Mapping[str, bytes | None]
) -> tuple[list[TestRun], list[TestRun]]:
    """Run the instance's test files in each order and with each hash seed, before and after the solution.

    Every run begins in the same fresh state of a sandbox, to which the solution's files are added.
    """
    runs: tuple[list[TestRun], list[TestRun]] = ([], [])
    stack = ExitStack()
    tree = await asyncio.to_thread(lambda: stack.enter_context(scratch_tree(snapshot, changes)))
    try:
        sandbox = await open_sandbox(snapshot.layers(tree), LIMITS, backend)
        try:
            for files, finished in zip(({}, solution), runs, strict=True):
                for order, seed in RUNS:
                    await sandbox.reset()
                    await write_files(sandbox, files)
                    finished.append(await run_tests(sandbox, verifier, order=order, hash_seed=seed))
        finally:
            await sandbox.close()
    finally:
        await asyncio.to_thread(stack.close)
    return runs


def _verifier(instance: Instance, snapshot: Snapshot, timeout_s: float) -> PytestVerifier:
    """Return how the tests of the test patch are run."""
    stated = snapshot.verifier
    targets = list(instance.test_files)
    if isinstance(stated, UnittestVerifier):
        folder = stated.program.rpartition("/")[0]
        targets = [_dotted(path.removeprefix(f"{folder}/")) for path in targets if path.startswith(f"{folder}/")]
    return stated.model_copy(update={"args": list(dict.fromkeys(targets)), "timeout_s": timeout_s})


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _with_build(draft: Verdict, instance: Instance, snapshot: Snapshot, built: BuiltEnvironment) -> Verdict:
    return replace(
        draft,
        environment=f"{instance.repo} {instance.version} on Python {snapshot.recipe.python}",
        build_seconds=built.seconds,
        build_bytes=built.bytes,
    )


def _line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:400]
