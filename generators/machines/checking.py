"""The order of the work on candidates: batches are screened in one warm run, then groups of survivors are judged."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .records import BuildCost, Built, Judged, Settings, Work
from .steps import Done, Screening, judge, screened

BATCH = 64
"""Candidates that are screened together: the package is imported and its tests are collected once for them."""
GROUP = 32
"""Most candidates that are judged side by side, so that their later trials share a process too."""
FIRST_GROUP = 4
"""Most candidates of a Snapshot's first groups, before it is known what a verdict costs."""
GROUP_SECONDS = 60.0
"""CPU seconds that a group may take by the cost of the last one; this much work is lost when a process is killed."""
AHEAD = 2
"""Steps per processor that are submitted at the same time, so that no processor waits for the next one."""


@dataclass(frozen=True)
class Step:
    """One step for a queue."""

    run: Callable[..., Any]  # a function of ``steps.py``
    built: Built  # its Snapshot
    arguments: tuple[Any, ...]  # its other arguments
    keys: tuple[str, ...]  # keys of the candidates that it is about


class Queue(Protocol):
    """A bounded queue of steps that run elsewhere."""

    def processors(self) -> int:
        """Return how many steps can run at the same time."""
        ...

    def has_room(self) -> bool:
        """Return whether another step may be submitted now."""
        ...

    def is_empty(self) -> bool:
        """Return whether no submitted step is unfinished."""
        ...

    def submit(self, step: Step) -> None:
        """Submit a step."""
        ...

    def next_done(self) -> tuple[Step, Done]:
        """Wait for any of the submitted steps and return it. Raises what the step raised."""
        ...


@dataclass
class Survivors:
    """Candidates of one Snapshot that passed screening and wait for a group."""

    waiting: deque[tuple[str, Screening]] = field(default_factory=deque)  # with their keys
    share: int = GROUP  # size of the groups that give every processor one
    cost: float | None = None  # CPU seconds per candidate of the last group

    def add(self, passed: list[tuple[str, Screening]], processors: int) -> None:
        """Add the survivors of a batch."""
        self.waiting.extend(passed)
        self.share = -(-len(self.waiting) // processors)

    def group(self) -> list[tuple[str, Screening]]:
        """Remove and return the next group, so small that it takes at most GROUP_SECONDS by the last one's cost."""
        most = FIRST_GROUP if self.cost is None else max(1, int(GROUP_SECONDS / max(self.cost, 0.01)))
        return [self.waiting.popleft() for _ in range(min(most, GROUP, self.share, len(self.waiting)))]


def verdicts(works: Iterable[Work], queue: Queue, settings: Settings) -> Iterator[Judged]:
    """Yield the verdict on every candidate as soon as it is known; each exactly once.

    Candidates are judged in groups, so a killed run loses at most one group per worker.
    """
    batches = (step for work in works for step in _batches(work, settings))
    survivors: defaultdict[Built, Survivors] = defaultdict(Survivors)
    screening_cpu: dict[str, float] = {}
    costs: dict[Built, BuildCost] = {}  # of builds, until the next verdict on a candidate of the Snapshot
    while True:
        while queue.has_room():
            step = _next_group(survivors, settings) or next(batches, None)
            if step is None:
                break
            queue.submit(step)
        if queue.is_empty():
            return
        step, done = queue.next_done()
        cpu = done.cpu_seconds / len(step.keys)
        if done.cost is not None:
            costs[step.built] = costs[step.built] + done.cost if step.built in costs else done.cost
        if step.run is judge:
            survivors[step.built].cost = cpu
            for key, verdict in zip(step.keys, done.value, strict=True):
                yield Judged(key, verdict, screening_cpu.pop(key) + cpu, costs.pop(step.built, None))
            continue
        passed: list[tuple[str, Screening]] = []
        for key, candidate, result in zip(step.keys, step.arguments[0], done.value, strict=True):
            if result.rejection:
                yield Judged(key, result.rejection, cpu, costs.pop(step.built, None))
            else:
                screening_cpu[key] = cpu
                passed.append((key, (candidate, result.run)))
        survivors[step.built].add(passed, queue.processors())


def _next_group(survivors: Mapping[Built, Survivors], settings: Settings) -> Step | None:
    for built, candidates in survivors.items():
        if candidates.waiting:
            keys, group = zip(*candidates.group(), strict=True)
            return Step(judge, built, (group, settings), keys)
    return None


def _batches(work: Work, settings: Settings) -> Iterator[Step]:
    keys = list(work.waiting)
    for start in range(0, len(keys), BATCH):
        part = tuple(keys[start : start + BATCH])
        yield Step(screened, work.built, ([work.waiting[key] for key in part], settings), part)
