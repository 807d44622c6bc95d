"""Ray as a place of work: each step is a Ray task that needs one processor, on any node.

Nodes share no files. What travels is the recipe of a Snapshot with its digest, candidates and rows; a node whose cache
lacks the Snapshot builds it with the locked packages of the recipe, and the digest must be the same. A task whose
worker or node was lost runs again, up to RETRIES times: steps are pure, and only the process that started the run
writes results, so that none is written twice.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from types import ModuleType
from typing import Any

from ... import __version__
from ...environments.snapshots import SnapshotOptions
from ...errors import EtudeError, GeneratorError, OutOfTime
from ...models import Task
from ..base import Progress, ProgressUpdate
from ..validation.checks.duplicates import Fingerprint
from . import steps
from .checking import AHEAD, BATCH, Step, verdicts
from .records import BuildCost, Built, Judged, Plan, Proposed, Settings, Work

RETRIES = 4
"""How often a task runs again whose worker or node was lost, or whose machine was too busy to judge."""


def run_step(version: str, step: Callable[..., Any], built: Built | None, arguments: tuple[Any, ...]) -> steps.Done:
    """Run a step on a node, after the Snapshot that it needs was built there.

    Raises GeneratorError when the node has another version of Etude, and what the step raises.
    """
    if version != __version__:
        raise GeneratorError(
            f"node {socket.gethostname()} has etude {__version__}, this command is {version}; install the same "
            "version on all nodes"
        )
    if built is None:
        return steps.timed(step, *arguments)
    cost = steps.make_available(built)
    done = steps.timed(step, built, *arguments)
    return steps.Done(done.value, done.cpu_seconds, cost)


class RayCluster:
    """The nodes of a Ray cluster."""

    def __init__(self, ray: ModuleType) -> None:
        self._ray: Any = ray
        options = {"num_cpus": 1, "max_retries": RETRIES, "retry_exceptions": [OutOfTime]}
        self._remote = self._ray.remote(**options)(run_step)
        self._running: dict[Any, Step | None] = {}

    # --- What etude generate asks for -------------------------------------------------------------------------

    def builds(
        self, sources: Sequence[str], options: SnapshotOptions, progress: Progress
    ) -> Iterator[tuple[Built, BuildCost | None]]:
        """Yield the Snapshot of each source, in their order. Raises SnapshotError.

        Folders and archives are read on this machine; others are built on the nodes.
        """

        def start(source: str) -> Callable[[], Any]:
            if source.startswith(("pypi:", "git+")):
                return self._start(steps.build, None, source, options)
            return lambda: steps.timed(steps.build, source, options)

        for number, done in enumerate(self._in_order(map(start, sources)), 1):
            progress(ProgressUpdate("snapshots", number, len(sources)))
            yield done.value

    def proposals(self, snapshots: Sequence[Built], plan: Plan) -> Iterator[Proposed]:
        """Yield what is proposed from each Snapshot, in their order.

        Plans that ask a model are carried out on this machine, where the answers are recorded, and so is
        whatever reads a folder or an archive of this machine.
        """
        yield from self._in_order(self._start_proposals(built, plan) for built in snapshots)

    def verdicts(self, works: Iterable[Work], settings: Settings) -> Iterator[Judged]:
        """Yield the verdict on every candidate as soon as it is known.

        Raises GeneratorError when a task was lost too often, OutOfTime when all attempts met a busy machine.
        """
        return verdicts(works, self, settings)

    def fingerprints(self, tasks: Sequence[tuple[Task, Built]]) -> list[Fingerprint]:
        """Return the fingerprint of each task."""
        calls = []
        for built, group in groupby(tasks, key=lambda pair: pair[1]):
            rows = [task for task, _ in group]
            calls += [(built, rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
        started = (self._start(steps.fingerprints, built, part) for built, part in calls)
        return [item for done in self._in_order(started) for item in done.value]

    def close(self) -> None:
        """Cancel all unfinished tasks, and end the processes that work on them."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()

    # --- The bounded queue of ``checking`` --------------------------------------------------------------------

    def processors(self) -> int:
        """Return how many processors the cluster has now, at least one."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def has_room(self) -> bool:
        """Return whether another step may be submitted now; nodes may come and go."""
        return sum(step is not None for step in self._running.values()) < self._most()

    def is_empty(self) -> bool:
        """Return whether no submitted step is unfinished."""
        return not any(self._running.values())

    def submit(self, step: Step) -> None:
        """Submit a step."""
        self._running[self._call(step.run, step.built, step.arguments)] = step

    def next_done(self) -> tuple[Step, steps.Done]:
        """Wait for any of the submitted steps and return it. Raises what the step raised."""
        references = [reference for reference, step in self._running.items() if step is not None]
        ready, _ = self._ray.wait(references, num_returns=1)
        step = self._running[ready[0]]
        assert step is not None, "only steps of the queue are waited for"
        return step, self._result(ready[0])

    # --- Tasks of Ray -----------------------------------------------------------------------------------------

    def _most(self) -> int:
        return AHEAD * self.processors()

    def _call(self, step: Callable[..., Any], built: Built | None, arguments: tuple[Any, ...]) -> Any:
        return self._remote.remote(__version__, step, built, arguments)

    def _result(self, reference: Any) -> steps.Done:
        """Return the result of a task. Raises what the step raised, and GeneratorError when the task was lost."""
        exceptions = self._ray.exceptions
        try:
            done: steps.Done = self._ray.get(reference)
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, EtudeError):
                raise cause from None
            raise
        except exceptions.RayError as error:
            raise GeneratorError(
                f"a Ray task was lost {RETRIES + 1} times ({type(error).__name__}); look at the nodes' logs, then run "
                "the same command again to resume"
            ) from error
        finally:
            self._running.pop(reference, None)
        return done

    def _start(self, step: Callable[..., Any], built: Built | None, *arguments: Any) -> Callable[[], steps.Done]:
        """Start a task and return a function that waits for its result."""
        reference = self._call(step, built, arguments)
        self._running[reference] = None
        return lambda: self._result(reference)

    def _in_order(self, started: Iterator[Callable[[], Any]]) -> Iterator[Any]:
        """Yield results in the order of the calls, of which a bounded number is started in advance."""
        waiting: deque[Callable[[], Any]] = deque()
        for result in started:
            waiting.append(result)
            if len(waiting) >= self._most():
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()

    def _start_proposals(self, built: Built, plan: Plan) -> Callable[[], Proposed]:
        """Start the proposals on a node, and return a function that waits for them; some plans are carried out here."""
        is_here = built.is_local or plan.asks_model
        remote = None if is_here else self._start(steps.propose, built, plan)

        def finish() -> Proposed:
            cost = steps.make_available(built) if is_here else None
            done = remote() if remote else steps.timed(steps.propose, built, plan)
            return Proposed(built, done.value, done.cpu_seconds, cost or done.cost)

        return finish
