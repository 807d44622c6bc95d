"""This machine as a place of work: Snapshots are built here, candidates are checked in a pool of processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from ...environments.sandbox.kernel.linux import die_with_parent
from ...environments.snapshots import SnapshotOptions
from ...errors import GeneratorError
from ...models import Task
from ..base import Progress, ProgressUpdate
from ..validation.checks.duplicates import Fingerprint
from . import steps
from .checking import AHEAD, Step, verdicts
from .records import BuildCost, Built, Judged, Plan, Proposed, Settings, Work


class PoolQueue:
    """A queue whose steps run in a pool of processes."""

    def __init__(self, pool: ProcessPoolExecutor, jobs: int) -> None:
        self._pool, self._jobs, self._most = pool, jobs, AHEAD * jobs
        self._running: dict[Future[steps.Done], Step] = {}

    def processors(self) -> int:
        """Return how many steps can run at the same time."""
        return self._jobs

    def has_room(self) -> bool:
        """Return whether another step may be submitted now."""
        return len(self._running) < self._most

    def is_empty(self) -> bool:
        """Return whether no submitted step is unfinished."""
        return not self._running

    def submit(self, step: Step) -> None:
        """Submit a step."""
        self._running[self._pool.submit(steps.timed, step.run, step.built, *step.arguments)] = step

    def next_done(self) -> tuple[Step, steps.Done]:
        """Wait for any of the submitted steps and return it. Raises what the step raised."""
        future = next(iter(wait(self._running, return_when=FIRST_COMPLETED).done))
        return self._running.pop(future), future.result()


class Processes:
    """Processes of this machine."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def builds(
        self, sources: Sequence[str], options: SnapshotOptions, progress: Progress
    ) -> Iterator[tuple[Built, BuildCost | None]]:
        """Yield the Snapshot of each source, in their order. Raises SnapshotError."""
        for source in sources:
            yield steps.build(source, options, lambda phase: progress(ProgressUpdate(phase)))

    def proposals(self, snapshots: Sequence[Built], plan: Plan) -> Iterator[Proposed]:
        """Yield what is proposed from each Snapshot, in their order."""
        for built in snapshots:
            done = steps.timed(steps.propose, built, plan)
            yield Proposed(built, done.value, done.cpu_seconds)

    def verdicts(self, works: Iterable[Work], settings: Settings) -> Iterator[Judged]:
        """Yield the verdict on every candidate as soon as it is known.

        Raises GeneratorError when a worker was killed, OutOfTime when the machine is too busy to judge a candidate.
        """
        for work in works:
            if work.waiting:
                yield from self._of(work, settings)

    def _of(self, work: Work, settings: Settings) -> Iterator[Judged]:
        workers = min(self.jobs, len(work.waiting))
        # Spawned, not forked: a worker must not share the parent's sandbox keeper, threads or locks.
        with ProcessPoolExecutor(
            max_workers=workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=die_with_parent,
            initargs=(os.getpid(), signal.SIGKILL),
        ) as pool:
            try:
                yield from verdicts([work], PoolQueue(pool, workers), settings)
            except BrokenProcessPool:
                message = "a validation worker was killed; run the same command again to resume"
                raise GeneratorError(message) from None
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    worker.kill()
                raise

    def fingerprints(self, tasks: Sequence[tuple[Task, Built]]) -> list[Fingerprint]:
        """Return the fingerprint of each task."""
        return [steps.fingerprints(built, [task])[0] for task, built in tasks]
