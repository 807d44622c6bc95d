"""The order of the work on candidates: batches are screened in one warm run, then each survivor is judged alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .records import Built, Judged, Settings, Work
from .steps import Done, judge, screened

BATCH = 64
"""Candidates that are screened together: the package is imported and its tests are collected once for them."""
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


def verdicts(works: Iterable[Work], queue: Queue, settings: Settings) -> Iterator[Judged]:
    """Yield the verdict on every candidate as soon as it is known; each exactly once."""
    batches = (step for work in works for step in _batches(work, settings))
    survivors: deque[Step] = deque()
    screening: dict[str, Done] = {}
    while True:
        while queue.has_room():
            step = survivors.popleft() if survivors else next(batches, None)
            if step is None:
                break
            queue.submit(step)
        if queue.is_empty():
            return
        step, done = queue.next_done()
        if step.run is judge:
            first = screening.pop(step.keys[0])
            costs = [cost for cost in (first.cost, done.cost) if cost]
            cost = sum(costs[1:], costs[0]) if costs else None
            yield Judged(step.keys[0], done.value, first.cpu_seconds + done.cpu_seconds, cost)
            continue
        share = done.cpu_seconds / len(step.keys)
        for number, (key, candidate, result) in enumerate(zip(step.keys, step.arguments[0], done.value, strict=True)):
            # The cost of the build is reported once, with the first candidate of the batch.
            part = Done(None, share, done.cost if not number else None)
            if result.rejection:
                yield Judged(key, result.rejection, share, part.cost)
            else:
                screening[key] = part
                survivors.append(Step(judge, step.built, (candidate, settings, result.run), (key,)))


def _batches(work: Work, settings: Settings) -> Iterator[Step]:
    keys = list(work.waiting)
    for start in range(0, len(keys), BATCH):
        part = tuple(keys[start : start + BATCH])
        yield Step(screened, work.built, ([work.waiting[key] for key in part], settings), part)
