"""Verdicts on candidates, from a pool of processes."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..environments.sandbox.kernel.linux import die_with_parent
from ..environments.snapshots import open_snapshot
from ..environments.snapshots.test_run.test_runner import TestRun
from ..errors import GeneratorError, Rejected
from ..models import SnapshotRef, Task
from .base import Candidate, Rejection
from .engine.screening import Screened, screen
from .validation.checks.final_checks import CheckKnobs
from .validation.pipeline import Validator


@dataclass(frozen=True)
class Settings:
    """How candidates are checked."""

    backend: str  # the sandbox backend
    knobs: CheckKnobs  # the knobs of validation


BATCH = 64
"""Candidates that are screened together: the package is imported and its tests are collected once for them."""
GROUP = 16
"""Candidates that are judged side by side, so that their later trials share a process too."""
Verdict = Task | Rejection
"""The result of validation."""
Screening = tuple[Candidate, TestRun | None]
"""A candidate and the run of the tests that run the changed code, where screening has made it."""


def verdicts(
    reference: SnapshotRef, waiting: Mapping[str, Candidate], jobs: int, settings: Settings
) -> Iterator[tuple[str, Verdict]]:
    """Yield key and verdict of every candidate as soon as it is known.

    Candidates are judged in groups, so a killed run loses at most one group per worker. Raises GeneratorError when a
    worker was killed, OutOfTime when the machine is too busy to judge a candidate.
    """
    if not waiting:
        return
    # Spawned, not forked: a worker must not share the parent's sandbox keeper, threads or locks.
    with ProcessPoolExecutor(
        max_workers=max(1, min(jobs, len(waiting))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=die_with_parent,
        initargs=(os.getpid(), signal.SIGKILL),
    ) as pool:
        judging: dict[Future[list[Verdict]], list[str]] = {}
        screening: dict[Future[list[Screened]], list[str]] = {
            pool.submit(screened, reference, [waiting[key] for key in keys], settings): keys
            for keys in _batches(list(waiting), BATCH)
        }
        try:
            while judging or screening:
                running: list[Future[Any]] = [*judging, *screening]
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    if future in judging:
                        yield from zip(judging.pop(future), future.result(), strict=True)
                        continue
                    results = dict(zip(screening.pop(future), future.result(), strict=True))
                    yield from ((key, result.rejection) for key, result in results.items() if result.rejection)
                    for keys in _batches([key for key in results if not results[key].rejection], GROUP):
                        group = [(waiting[key], results[key].run) for key in keys]
                        judging[pool.submit(judge, reference, group, settings)] = keys
        except BrokenProcessPool:
            raise GeneratorError("a validation worker was killed; run the same command again to resume") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def _batches(keys: list[str], size: int) -> list[list[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


def screened(reference: SnapshotRef, candidates: list[Candidate], settings: Settings) -> list[Screened]:
    """Return what one warm run says about each candidate; runs in a worker process."""
    validator = _validator(reference.model_dump_json(), settings)
    return asyncio.run(screen(candidates, validator.warm.suite))


def judge(reference: SnapshotRef, group: Sequence[Screening], settings: Settings) -> list[Verdict]:
    """Return the verdict on each candidate of a group; runs in a worker process."""
    return asyncio.run(_judged(_validator(reference.model_dump_json(), settings), group))


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


@lru_cache(maxsize=2)
def _validator(reference: str, settings: Settings) -> Validator:
    return Validator(open_snapshot(SnapshotRef(**json.loads(reference))), settings.backend, settings.knobs)
