"""``etude generate``: Sources in, a folder of validated tasks out.

Candidates are checked in a pool of processes (``workers.py``); the rows come in the order of the seed, whichever
candidate is finished first. Every verdict is written to a journal at once, so that a killed run can be resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..environments.snapshots import Snapshot, SnapshotOptions, build_snapshot
from ..environments.snapshots.project.licences import is_permissive
from ..environments.tasks.task_set import BLOBS
from ..environments.tasks.task_trees import Materials
from ..errors import GeneratorError, NotApplicable
from . import GENERATORS
from .base import Candidate, Generator, Progress, ProgressUpdate, Rejection, no_progress
from .curriculum.selection import select
from .knob_parsing import check_knob_names, parse_knobs, select_knobs
from .model_endpoint import ANSWERS, AsksModel, ModelEndpoint
from .output.pack_set import pack_set
from .output.publish import Journal, Row, publish, refuse_foreign
from .selection.apply import SelectionReport, selection_report, with_splits
from .selection.overlap import RowIndex
from .selection.splits import SplitRules
from .twins.renamed.renamed_rows import RenamedReport, with_renamed_twins
from .twins.twin_rows import with_twins
from .validation.assembly import candidate_key
from .validation.checks.duplicates import duplicates, fingerprint
from .validation.checks.exercise import Exercise
from .validation.checks.final_checks import CheckKnobs
from .workers import Settings, verdicts


@dataclass
class Counts:
    """What became of some candidates."""

    candidates: int = 0  # proposals that were checked
    tasks: int = 0  # those that became tasks
    rejected: dict[str, int] = field(default_factory=dict)  # the others, by reason

    def add(self, row: Row) -> None:
        """Count one verdict."""
        self.candidates += 1
        if row.rejection is None:
            self.tasks += 1
        else:
            self.rejected[row.rejection.reason] = self.rejected.get(row.rejection.reason, 0) + 1


@dataclass(kw_only=True)
class Report(Counts):
    """The content of ``report.json``, which adds ``yield``, the request and a detail per rejected candidate."""

    sources: list[str]  # sources as they were given
    generators: list[str]  # names of the generators
    seed: int  # the seed
    count: int  # most candidates per source and generator
    per_source: dict[str, Counts] = field(default_factory=dict)  # the same counts for each package
    per_generator: dict[str, Counts] = field(default_factory=dict)  # the same counts for each generator
    not_applicable: dict[str, str] = field(default_factory=dict)  # reasons by "generator on package"
    twins: dict[str, int] = field(default_factory=dict)  # impossible twins "made", and tasks without one by reason
    curriculum: dict[str, Any] = field(default_factory=dict)  # what `--curriculum` asked for, and why
    renamed: RenamedReport = field(default_factory=RenamedReport)  # renamed twins, and what was renamed for them
    selection: SelectionReport = field(default_factory=SelectionReport)  # splits, benchmarks, overlap
    seconds: float = 0.0  # wall time of this run

    def row(self) -> dict[str, Any]:
        """Return the fields and the share of candidates that became tasks."""
        return {**asdict(self), "yield": round(self.tasks / self.candidates, 4) if self.candidates else 0.0}


def generate(
    sources: list[str],
    *,
    generators: list[str],
    count: int,
    seed: int,
    out: Path,
    jobs: int = 1,
    options: SnapshotOptions | None = None,
    knobs: Mapping[str, Any] | None = None,
    backend: str = "auto",
    any_licence: bool = False,
    pack: bool = False,
    impossible: bool = False,
    obfuscate: bool = False,
    rules: SplitRules | None = None,
    overlap: Sequence[Path] = (),
    endpoint: ModelEndpoint | None = None,
    difficulty: str = "",
    curriculum: Path | None = None,
    progress: Progress = no_progress,
) -> Report:
    """Write ``out/tasks.jsonl``, ``out/report.json`` and ``out/README.md``; with ``pack`` the Snapshots' archives too.

    ``count`` is the number of candidates per Source and generator, in seed order. The rows are the same bytes for the
    same Sources, generators, count, seed and knobs, whatever ``jobs``. Each generator gets the knobs that it has; a
    knob that none of them has is an error. Sources without a permissive licence are refused unless ``any_licence``.
    With ``obfuscate`` each task is followed by its renamed twin, with ``impossible`` by its impossible twin, where it
    has one (see ``twins``). ``rules`` put the tasks into splits, and the report says what they share with the rows in
    the files ``overlap`` (see ``selection``). Generators that ask a language model ask ``endpoint``; its answers are
    recorded in ``out/answers.jsonl`` and not asked for again. ``difficulty`` leaves out tasks of another predicted
    difficulty (see ``curriculum.band``); ``curriculum`` is a folder of runs whose solve rates decide which settings of
    the generators are asked for. Names, knobs and ``out`` are checked before a Snapshot is built. A generator that does
    not fit a source is left out, and the report says why. Raises SnapshotError, UnknownName, RowError, and
    GeneratorError when there is nothing to propose.
    """
    started = time.monotonic()
    rules = rules or SplitRules()
    indexes = [RowIndex(path) for path in overlap]
    makers, check_knobs = _makers(generators, knobs or {})
    _connect(makers, endpoint, out, optional=generators == ["all"])
    asked = select(makers, knobs or {}, count=count, seed=seed, difficulty=difficulty, runs=curriculum)
    names = [maker.name for maker in makers]
    snapshot_options = options or SnapshotOptions()
    request = {
        "sources": sources,
        "generators": names,
        "count": count,
        "seed": seed,
        "knobs": {name: str(value) for name, value in (knobs or {}).items()},
        "options": snapshot_options.model_dump(mode="json", exclude_defaults=True),
        **({"impossible": True} if impossible else {}),
        **({"obfuscate": True} if obfuscate else {}),
        **({"selection": selection} if (selection := rules.changed()) else {}),
        **({"model": endpoint.model} if endpoint else {}),
        **asked.request,
    }
    refuse_foreign(out, request)
    journal = Journal(out)
    # All snapshots first: a mistake in the last source should not cost the work on the others.
    built = [
        build_snapshot(source, snapshot_options, progress=lambda phase: progress(ProgressUpdate(phase)))
        for source in sources
    ]
    by_digest = {snapshot.digest: snapshot for snapshot in built}
    snapshots = list(by_digest.values())
    if not any_licence:
        refuse_unfree(snapshots)
    unfit: dict[str, str] = {}
    rows: list[Row] = []
    for number, snapshot in enumerate(snapshots, 1):
        candidates = asked.candidates(snapshot, unfit)
        phase = f"{snapshot.name} {snapshot.version}" + (f" ({number} of {len(snapshots)})" if number > 1 else "")
        rows += _check(snapshot, candidates, journal, jobs, Settings(backend, check_knobs), phase, progress)
    if not rows and unfit:
        raise NotApplicable(next(iter(unfit.values())))
    if not rows:
        raise GeneratorError(
            f"nothing to propose in {', '.join(sources)}: no tested code fits the knobs; change them or take another "
            "source"
        )
    rows = with_splits(asked.within_band(without_duplicates(rows, by_digest)), rules)
    report = Report(sources=sources, generators=names, seed=seed, count=count, not_applicable=unfit)
    for row in rows:
        report.add(row)
        report.per_source.setdefault(row.source, Counts()).add(row)
        report.per_generator.setdefault(row.generator, Counts()).add(row)
    if asked.plan is not None:
        report.curriculum = asked.plan.report()
    report.selection = selection_report([row.task for row in rows if row.task], rules, indexes)
    if obfuscate:
        rows = asyncio.run(with_renamed_twins(rows, by_digest, backend, jobs, report.renamed, progress))
    if impossible:
        rows = asyncio.run(with_twins(rows, by_digest, backend, jobs, report.twins, progress))
    report.seconds = round(time.monotonic() - started, 1)
    publish(out, rows, report.row(), request, snapshots)
    journal.remove()
    if report.tasks and (pack or (out / BLOBS).is_dir()):  # a set that carries its archives continues to do so
        pack_set(out, progress=progress)
    return report


def _makers(names: list[str], knobs: Mapping[str, Any]) -> tuple[list[Generator], CheckKnobs]:
    """Return the generators and the knobs of the checks. Raises UnknownName, GeneratorError."""
    makers = [GENERATORS.load(name)() for name in (GENERATORS.names() if names == ["all"] else names)]
    check_knob_names(knobs, [CheckKnobs, *(maker.knobs for maker in makers)])
    return makers, parse_knobs(CheckKnobs, select_knobs(CheckKnobs, knobs))


def _connect(makers: list[Generator], endpoint: ModelEndpoint | None, out: Path, *, optional: bool) -> None:
    """Give ``endpoint`` to the generators that ask a model. Raises NotApplicable without one unless ``optional``."""
    for maker in makers:
        if isinstance(maker, AsksModel):
            maker.endpoint = replace(endpoint, answers=out / ANSWERS) if endpoint else None
            if not optional:
                maker.required_endpoint()


def _check(
    snapshot: Snapshot,
    candidates: list[Candidate],
    journal: Journal,
    jobs: int,
    settings: Settings,
    phase: str,
    progress: Progress,
) -> list[Row]:
    """Return one Row per candidate, in their order; verdicts of an interrupted run come from the journal."""
    # A verdict under other settings is not a verdict for this run.
    keys = [f"{candidate_key(snapshot, candidate)} {settings.knobs}" for candidate in candidates]
    by_key = dict(zip(keys, candidates, strict=True))
    rows = {key: row for key in by_key if (row := journal.get(key)) is not None}
    waiting = {key: candidate for key, candidate in by_key.items() if key not in rows}
    progress(_update(phase, list(rows.values()), len(by_key)))
    for key, verdict in verdicts(snapshot.ref, waiting, jobs, settings):
        candidate = by_key[key]
        task, rejection = (None, verdict) if isinstance(verdict, Rejection) else (verdict, None)
        source = f"{snapshot.name} {snapshot.version}"
        rows[key] = Row(source, candidate.generator.name, candidate.entity, task, rejection)
        journal.add(key, rows[key])
        progress(_update(phase, list(rows.values()), len(by_key)))
    return [rows[key] for key in keys]


def _update(phase: str, rows: list[Row], total: int) -> ProgressUpdate:
    rejections = [row.rejection for row in rows if row.rejection is not None]
    last = rejections[-1].reason if rejections else ""
    return ProgressUpdate(phase, len(rows), total, len(rows) - len(rejections), len(rejections), last)


def without_duplicates(rows: list[Row], snapshots: Mapping[str, Snapshot]) -> list[Row]:
    """Return the same rows in their order; a task that repeats an earlier one is rejected (V6)."""
    tasks = [(row.task, snapshots[row.task.snapshot.digest]) for row in rows if row.task and row.task.snapshot]
    exercises = [(task, Exercise.of(task, Materials(task, snapshot))) for task, snapshot in tasks]
    repeats = duplicates([fingerprint(task, exercise) for task, exercise in exercises])
    return [
        replace(row, task=None, rejection=Rejection("v6_duplicate", f"the same exercise as {original}"))
        if row.task is not None and (original := repeats.get(row.task.task_id))
        else row
        for row in rows
    ]


def refuse_unfree(snapshots: Iterable[Snapshot]) -> None:
    """Raise GeneratorError unless every licence is known to be permissive, because rows quote the code."""
    for item in snapshots:
        if not is_permissive(item.licence):
            problem = (
                f"is under {item.licence}, which is not known to be permissive"
                if item.licence
                else "names no licence that Etude recognizes"
            )
            raise GeneratorError(f"{item.name} {item.version} {problem}; take another source, or pass --any-licence")
