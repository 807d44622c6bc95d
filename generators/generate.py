"""``etude generate``: Sources in, a folder of validated tasks out.

Candidates are checked in a pool of processes; the order of the rows is the order of the seed, whatever finishes first.
Every verdict is written to a journal at once, so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from ..environments.sandbox.linux import die_with_parent
from ..environments.snapshots import Snapshot, SnapshotOptions, build_snapshot, open_snapshot
from ..models import SnapshotRef, Task
from . import GENERATORS, Candidate, GeneratorError
from .publish import Journal, Row, publish, refuse_foreign
from .task_id import candidate_key
from .validator import Rejected, Validator

Progress = Callable[[str, int, int], None]
"""Called with a phase, the work done and the work there is (0: not known)."""


@dataclass
class Report:
    """What ``report.json`` holds: candidates, reject reasons, ``yield``, seconds."""

    sources: list[str]
    generators: list[str]
    seed: int
    count: int
    candidates: int = 0
    tasks: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    per_source: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    def row(self) -> dict[str, Any]:
        share = round(self.tasks / self.candidates, 4) if self.candidates else 0.0
        return {**self.__dict__, "yield": share}


def generate(
    sources: list[str],
    *,
    generators: list[str],
    count: int,
    seed: int,
    out: Path,
    jobs: int = 1,
    options: SnapshotOptions | None = None,
    knobs: dict[str, Any] | None = None,
    backend: str = "auto",
    progress: Progress = lambda phase, done, total: None,
) -> Report:
    """Write ``out/tasks.jsonl``, ``out/report.json`` and ``out/README.md``.

    ``count`` is the number of candidates per Source and generator, in seed order. The rows are the same bytes for the
    same Sources, generators, count, seed and knobs, whatever ``jobs``. Raises SnapshotError, GeneratorError,
    UnknownName, or OSError for a folder that cannot be written.
    """
    started = time.monotonic()
    makers = [GENERATORS.load(name)() for name in (GENERATORS.names() if generators == ["all"] else generators)]
    request = {"sources": sources, "generators": [maker.name for maker in makers], "count": count, "seed": seed}
    request["knobs"] = {name: str(value) for name, value in (knobs or {}).items()}
    chosen = options or SnapshotOptions()
    request["options"] = chosen.model_dump(mode="json", exclude_defaults=True)
    refuse_foreign(out, request)
    journal = Journal(out)
    rows: list[Row] = []
    # All of them first: a mistake in the last source should not cost the work on the others.
    built = [build_snapshot(source, chosen, progress=lambda phase: progress(phase, 0, 0)) for source in sources]
    snapshots = list({snapshot.digest: snapshot for snapshot in built}.values())
    for snapshot in snapshots:
        for maker in makers:
            found = list(islice(maker.candidates(snapshot, seed, knobs or {}), count))
            rows += _check(snapshot, found, journal, jobs, backend, progress)
    report = _report(request, rows, time.monotonic() - started)
    if not rows:
        raise GeneratorError(f"nothing to propose in {', '.join(sources)}: no function is long enough and tested")
    publish(out, rows, report.row(), request, snapshots)
    journal.remove()
    return report


def _report(request: dict[str, Any], rows: list[Row], seconds: float) -> Report:
    report = Report(request["sources"], request["generators"], request["seed"], request["count"])
    report.seconds = round(seconds, 1)
    for row in rows:
        part = report.per_source.setdefault(row.source, {"candidates": 0, "tasks": 0, "rejected": {}})
        report.candidates += 1
        part["candidates"] += 1
        if row.task is not None:
            report.tasks += 1
            part["tasks"] += 1
        else:
            for counts in (report.rejected, part["rejected"]):
                counts[row.reason] = counts.get(row.reason, 0) + 1
    return report


def _check(
    snapshot: Snapshot, found: list[Candidate], journal: Journal, jobs: int, backend: str, progress: Progress
) -> list[Row]:
    """One Row per candidate, in their order; verdicts of an earlier, interrupted run are taken from the journal."""
    keys = [candidate_key(snapshot, candidate) for candidate in found]
    rows = {key: row for key in keys if (row := journal.get(key)) is not None}
    waiting = [(key, candidate) for key, candidate in zip(keys, found, strict=True) if key not in rows]
    label = f"{snapshot.name} {snapshot.version}"
    progress(label, len(rows), len(keys))
    reference = SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json"))
    for key, (task, reason, detail, entity) in _verdicts(reference, waiting, jobs, backend):
        rows[key] = Row(source=label, entity=entity, task=task, reason=reason, detail=detail)
        journal.add(key, rows[key])
        progress(label, len(rows), len(keys))
    return [rows[key] for key in keys]


Verdict = tuple[Task | None, str, str, str]


def _verdicts(
    reference: SnapshotRef, waiting: list[tuple[str, Candidate]], jobs: int, backend: str
) -> Iterator[tuple[str, Verdict]]:
    if not waiting:
        return
    # Spawned, not forked: a worker must not share the parent's sandbox keeper, threads or locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        max_workers=max(1, min(jobs, len(waiting))),
        mp_context=context,
        initializer=die_with_parent,
        initargs=(os.getpid(), signal.SIGKILL),
    ) as pool:
        running: dict[Future[Verdict], str] = {
            pool.submit(verdict, reference, candidate, backend): key for key, candidate in waiting
        }
        try:
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise GeneratorError("a validation worker was killed; run the same command again to go on") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def verdict(reference: SnapshotRef, candidate: Candidate, backend: str) -> Verdict:
    """Task or reject reason of one candidate; runs in a worker process."""
    validator = _validator(reference.model_dump_json(), backend)
    try:
        return asyncio.run(validator.task(candidate)), "", "", candidate.entity
    except Rejected as rejected:
        return None, rejected.reason, rejected.detail, candidate.entity


@cache
def _validator(reference: str, backend: str) -> Validator:
    return Validator(open_snapshot(SnapshotRef(**json.loads(reference))), backend)
