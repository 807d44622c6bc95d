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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from ..environments.sandbox.kernel.linux import die_with_parent
from ..environments.snapshots import Snapshot, SnapshotOptions, build_snapshot, open_snapshot
from ..environments.snapshots.project.licences import is_permissive
from ..environments.tasks.task_set import BLOBS
from ..environments.tasks.task_trees import Materials
from ..errors import GeneratorError, Rejected
from ..models import SnapshotRef, Task
from . import GENERATORS
from .base import Candidate
from .output.pack_set import pack_set
from .output.publish import Journal, Row, publish, refuse_foreign
from .validation.checks.duplicates import duplicates, fingerprint
from .validation.checks.final_checks import CheckKnobs
from .validation.checks.removed import Exercise
from .validation.pipeline import Validator
from .validation.task_id import candidate_key

How = tuple[str, CheckKnobs]
"""Sandbox backend, and the knobs of the validator's own checks."""

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
    any_licence: bool = False,
    pack: bool = False,
    progress: Progress = lambda phase, done, total: None,
) -> Report:
    """Write ``out/tasks.jsonl``, ``out/report.json`` and ``out/README.md``; with ``pack`` the Snapshots' archives too.

    ``count`` is the number of candidates per Source and generator, in seed order. The rows are the same bytes for the
    same Sources, generators, count, seed and knobs, whatever ``jobs``. Raises SnapshotError, GeneratorError,
    UnknownName, or OSError for a folder that cannot be written. Sources without a permissive licence are refused
    unless ``any_licence``.
    """
    started = time.monotonic()
    check_knobs, maker_knobs = CheckKnobs.split(knobs or {})
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
    if not any_licence:
        refuse_unfree(snapshots)
    for snapshot in snapshots:
        for maker in makers:
            found = list(islice(maker.candidates(snapshot, seed, maker_knobs), count))
            rows += _check(snapshot, found, journal, jobs, (backend, check_knobs), progress)
    rows = without_duplicates(rows, {snapshot.digest: snapshot for snapshot in snapshots})
    report = _report(request, rows, time.monotonic() - started)
    if not rows:
        raise GeneratorError(f"nothing to propose in {', '.join(sources)}: no function is long enough and tested")
    publish(out, rows, report.row(), request, snapshots)
    journal.remove()
    if report.tasks and (pack or (out / BLOBS).is_dir()):  # a set that carries its archives goes on carrying them
        pack_set(out, progress=progress)
    return report


def without_duplicates(rows: list[Row], snapshots: dict[str, Snapshot]) -> list[Row]:
    """The same rows, in their order; a task that repeats an earlier one is rejected (V6)."""
    prints = []
    for task in (row.task for row in rows if row.task is not None):
        snapshot = snapshots[task.snapshot.digest] if task.snapshot else None
        if snapshot is not None:
            prints.append(fingerprint(task, Exercise.of(task, Materials(task, snapshot))))
    repeats = duplicates(prints)
    return [
        replace(row, task=None, reason="v6_duplicate", detail=f"the same exercise as {repeats[row.task.task_id]}")
        if row.task is not None and row.task.task_id in repeats
        else row
        for row in rows
    ]


def refuse_unfree(snapshots: Iterable[Snapshot]) -> None:
    """Rows quote the code, so its licence must allow that. Raises GeneratorError unless every one is permissive."""
    for item in snapshots:
        if not is_permissive(item.licence):
            found = f"is under {item.licence}, which is not" if item.licence else "names no licence that can be told"
            known = " known to be permissive" if item.licence else ""
            raise GeneratorError(
                f"{item.name} {item.version} {found}{known}: take another source, or pass --any-licence"
            )


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
    snapshot: Snapshot, found: list[Candidate], journal: Journal, jobs: int, how: How, progress: Progress
) -> list[Row]:
    """One Row per candidate, in their order; verdicts of an earlier, interrupted run are taken from the journal."""
    # Verdicts under other settings are no verdicts.
    keys = [f"{candidate_key(snapshot, candidate)} {how[1]}" for candidate in found]
    rows = {key: row for key in keys if (row := journal.get(key)) is not None}
    waiting = [(key, candidate) for key, candidate in zip(keys, found, strict=True) if key not in rows]
    label = f"{snapshot.name} {snapshot.version}"
    progress(label, len(rows), len(keys))
    reference = SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json"))
    for key, (task, reason, detail, entity) in _verdicts(reference, waiting, jobs, how):
        rows[key] = Row(source=label, entity=entity, task=task, reason=reason, detail=detail)
        journal.add(key, rows[key])
        progress(label, len(rows), len(keys))
    return [rows[key] for key in keys]


Verdict = tuple[Task | None, str, str, str]


def _verdicts(
    reference: SnapshotRef, waiting: list[tuple[str, Candidate]], jobs: int, how: How
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
            pool.submit(verdict, reference, candidate, how): key for key, candidate in waiting
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


def verdict(reference: SnapshotRef, candidate: Candidate, how: How) -> Verdict:
    """Task or reject reason of one candidate; runs in a worker process."""
    validator = _validator(reference.model_dump_json(), how)
    try:
        return asyncio.run(validator.task(candidate)), "", "", candidate.entity
    except Rejected as rejected:
        return None, rejected.reason, rejected.detail, candidate.entity


@cache
def _validator(reference: str, how: How) -> Validator:
    return Validator(open_snapshot(SnapshotRef(**json.loads(reference))), *how)
