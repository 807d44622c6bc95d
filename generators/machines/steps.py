"""The work of ``etude generate`` in steps that run in any process: build, propose, screen, judge, compare."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...environments.snapshots import Snapshot, SnapshotOptions, build_snapshot, open_snapshot
from ...environments.snapshots.builder.build import WAITING
from ...environments.snapshots.source import history
from ...environments.snapshots.store.cache import cache_folder
from ...environments.snapshots.test_run.test_runner import TestRun
from ...environments.tasks.task_trees import Materials
from ...errors import GeneratorError, Rejected
from ...models import Task
from ..base import Candidate, Rejection
from ..engine.screening import Screened, screen
from ..validation.checks.duplicates import Fingerprint, fingerprint
from ..validation.checks.exercise import Exercise
from ..validation.pipeline import Validator
from .cpu_time import cpu_seconds
from .records import BuildCost, Built, Plan, Proposals, Settings, Verdict

Screening = tuple[Candidate, TestRun | None]
"""A candidate and the run of the tests that run the changed code, where screening has made it."""


@dataclass(frozen=True)
class Done:
    """The result of one step."""

    value: Any  # what the step returned
    cpu_seconds: float  # CPU time of the step, sandboxes included, without that of the build
    cost: BuildCost | None = None  # cost of the build that the step needed first


def timed(step: Callable[..., Any], *arguments: Any) -> Done:
    """Run a step and measure it.

    Garbage is collected after the step: to parse a large file makes so many objects that the collector would look at
    all syntax trees in memory several times a second.
    """
    before, collects = cpu_seconds(), gc.isenabled()
    gc.disable()
    try:
        value = step(*arguments)
    finally:
        if collects:
            gc.enable()
        gc.collect()
    return Done(value, max(0.0, cpu_seconds() - before))


def build(
    source: str, options: SnapshotOptions, progress: Callable[[str], None] = lambda message: None
) -> tuple[Built, BuildCost | None]:
    """Return the Snapshot of a source, and what its build cost unless the cache had it. Raises SnapshotError."""
    snapshot, cost = _measured(lambda note: build_snapshot(source, options, progress=note), progress)
    stable = _stable_tests(snapshot)
    return Built(source, snapshot.ref.model_dump_json(), len(snapshot.baseline.passed), stable), cost


def make_available(built: Built) -> BuildCost | None:
    """Build a Snapshot that this machine's cache lacks, and return what that cost. Raises as ``opened`` does."""
    if (cache_folder() / "snapshots" / built.digest).is_dir():
        return None
    snapshot, cost = _measured(lambda note: open_snapshot(built.ref, progress=note))
    _check_same(built, snapshot)
    history.remember(snapshot.cache, snapshot.digest, built.source)
    return cost


@lru_cache(maxsize=2)
def opened(built: Built) -> Snapshot:
    """Return a Snapshot on this machine. Raises SnapshotError, and GeneratorError when other tests pass here."""
    snapshot = open_snapshot(built.ref)
    _check_same(built, snapshot)
    return snapshot


def propose(built: Built, plan: Plan) -> Proposals:
    """Return what is proposed from a Snapshot."""
    return plan.candidates(opened(built))


def screened(built: Built, candidates: list[Candidate], settings: Settings) -> list[Screened]:
    """Return what one warm run says about each candidate."""
    return asyncio.run(screen(candidates, _validator(built, settings).warm.suite))


def judge(built: Built, group: Sequence[Screening], settings: Settings) -> list[Verdict]:
    """Return the verdict on each candidate of a group."""
    return asyncio.run(_judged(_validator(built, settings), group))


async def _judged(validator: Validator, group: Sequence[Screening]) -> list[Verdict]:
    verdicts: list[Verdict | BaseException] = []
    waiting = list(group)
    while waiting and not validator.shared.nothing_scored:  # what candidates share is shown with the first ones
        verdicts += await validator.warm.together([_verdict(validator, *waiting.pop(0))])
    verdicts += await validator.warm.together([_verdict(validator, *item) for item in waiting])
    for verdict in verdicts:
        if isinstance(verdict, BaseException):
            raise verdict
    return [verdict for verdict in verdicts if not isinstance(verdict, BaseException)]


async def _verdict(validator: Validator, candidate: Candidate, first: TestRun | None) -> Verdict:
    try:
        return await validator.task(candidate, first)
    except Rejected as rejected:
        return Rejection(rejected.reason, rejected.detail)


def fingerprints(built: Built, tasks: Sequence[Task]) -> list[Fingerprint]:
    """Return the fingerprint of each task of a Snapshot."""
    return [fingerprint(task, Exercise.of(task, Materials(task, opened(built)))) for task in tasks]


@lru_cache(maxsize=2)
def _validator(built: Built, settings: Settings) -> Validator:
    return Validator(opened(built), settings.backend, settings.knobs)


def _stable_tests(snapshot: Snapshot) -> str:
    return hashlib.sha256("\n".join(sorted(snapshot.baseline.passed)).encode()).hexdigest()


def _check_same(built: Built, snapshot: Snapshot) -> None:
    """Raise GeneratorError when the tests that pass here are not those that passed where the Snapshot was built."""
    if _stable_tests(snapshot) != built.stable_tests:
        raise GeneratorError(
            f"{built.name} {built.version} passes {len(snapshot.baseline.passed)} tests on one machine and "
            f"{built.passing_tests} on another, or different ones; give all nodes the same system packages"
        )


def _measured(
    make: Callable[[Callable[[str], None]], Snapshot], progress: Callable[[str], None] = lambda message: None
) -> tuple[Snapshot, BuildCost | None]:
    """Return a Snapshot, and what its build cost if it was built here and now."""
    phases: list[str] = []

    def note(phase: str) -> None:
        phases.append(phase)
        progress(phase)

    started, before = time.monotonic(), cpu_seconds()
    snapshot = make(note)
    if not phases or phases[-1] == WAITING:
        return snapshot, None
    seconds, cpu = time.monotonic() - started, cpu_seconds() - before
    return snapshot, BuildCost(1, round(seconds, 2), round(max(0.0, cpu), 2), _folder_size(snapshot.path))


def _folder_size(folder: Path) -> int:
    """Return the size of the files below a folder in bytes; a file with several names counts once."""
    entries = (entry.lstat() for entry in folder.rglob("*"))
    return sum({(entry.st_dev, entry.st_ino): entry.st_blocks * 512 for entry in entries}.values())
