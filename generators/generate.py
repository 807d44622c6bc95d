"""``etude generate``: Sources in, a folder of validated tasks out.

Candidates are checked in a pool of processes, or by Ray (``machines``); the rows come in the order of the seed,
whichever candidate is finished first. Every verdict is written to a journal at once: a killed run can be resumed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..environments.snapshots import SnapshotOptions, open_snapshot
from ..environments.snapshots.project.licences import is_permissive
from ..environments.tasks.task_set import BLOBS
from ..errors import GeneratorError, NotApplicable
from . import GENERATORS
from .base import Candidate, Generator, Progress, ProgressUpdate, Rejection, no_progress
from .curriculum.selection import select
from .knob_parsing import check_knob_names, parse_knobs, select_knobs
from .machines.processes import Processes
from .machines.records import Built, Judged, Machines, Plan, Proposed, Settings, Work
from .model_endpoint import ANSWERS, AsksModel, ModelEndpoint
from .output.pack_set import pack_set
from .output.publish import Journal, Row, publish, refuse_foreign
from .output.report import Counts, Report, failed_text
from .rewording.reworded_rows import with_rewritten_statements
from .selection.apply import selection_report, with_splits
from .selection.overlap import RowIndex
from .selection.splits import SplitRules
from .twins.renamed.renamed_rows import with_renamed_twins
from .twins.twin_rows import with_twins
from .validation.assembly import candidate_key
from .validation.checks.duplicates import Fingerprint, duplicates
from .validation.checks.final_checks import CheckKnobs


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
    rewrite: bool = False,
    difficulty: str = "",
    curriculum: Path | None = None,
    ray: str | None = None,
    progress: Progress = no_progress,
) -> Report:
    """Write ``out/tasks.jsonl``, ``out/report.json`` and ``out/README.md``; with ``pack`` the Snapshots' archives too.

    ``count`` is the number of candidates per Source and generator, in seed order. The rows are the same bytes for the
    same Sources, generators, count, seed and knobs, whatever ``jobs`` and ``ray``. Each generator gets the knobs that
    it has; a knob that none of them has is an error. Sources without a permissive licence are refused unless
    ``any_licence``. With ``ray``, the address of a Ray cluster, its nodes do the work; ``local`` starts Ray here with
    ``jobs`` CPUs.
    With ``obfuscate`` each task is followed by its renamed twin, with ``impossible`` by its impossible twin, where it
    has one (see ``twins``). ``rules`` put the tasks into splits, and the report says what they share with the rows in
    the files ``overlap`` (see ``selection``). Generators that ask a language model ask ``endpoint``; its answers are
    recorded in ``out/answers.jsonl`` and not asked for again. With ``rewrite`` it also writes the statements of all
    tasks in its own words (see ``rewording``). ``difficulty`` leaves out tasks of another predicted
    difficulty (see ``curriculum.band``); ``curriculum`` is a folder of runs whose solve rates decide which settings of
    the generators are asked for. Names, knobs and ``out`` are checked before a Snapshot is built. A generator that does
    not fit a source is left out, and the report says why; the candidates of one that fails by a defect of its own up to
    there are kept, and the report names the defect under ``failed``. Raises SnapshotError, UnknownName, RowError, and
    GeneratorError when there is nothing to propose.
    """
    started = time.monotonic()
    editor = _editor(endpoint, out) if rewrite else None
    rules = rules or SplitRules()
    indexes = [RowIndex(path) for path in overlap]
    makers, check_knobs = _makers(generators, knobs or {})
    _connect(makers, endpoint, out, optional=generators == ["all"])
    requested = select(makers, knobs or {}, count=count, seed=seed, difficulty=difficulty, runs=curriculum)
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
        **({"rewrite": True} if rewrite else {}),
        **requested.request,
    }
    refuse_foreign(out, request)
    journal = Journal(out)
    report = Report(sources=sources, generators=names, seed=seed, count=count)
    with _machines(ray, jobs) as machines:
        snapshots = _built(machines, sources, snapshot_options, report, progress)
        if not any_licence:
            refuse_unfree(snapshots)
        check = _Check(journal, Settings(backend, check_knobs), report, progress)
        rows = check.rows(machines, snapshots, requested)
        by_digest = {built.digest: built for built in snapshots}
        tasks = [(row.task, by_digest[row.task.snapshot.digest]) for row in rows if row.task and row.task.snapshot]
        rows = without_duplicates(rows, machines.fingerprints(tasks))
    rows = with_splits(requested.within_band(rows), rules)
    opened = {item.digest: open_snapshot(item.ref) for item in snapshots} if obfuscate or impossible or editor else {}
    if editor:
        rows = asyncio.run(with_rewritten_statements(rows, opened, editor, report.rewriting, progress))
    for row in rows:
        report.add(row)
        report.per_source.setdefault(row.source, Counts()).add(row)
        report.per_generator.setdefault(row.generator, Counts()).add(row)
    if requested.plan is not None:
        report.curriculum = requested.plan.report()
    report.selection = selection_report([row.task for row in rows if row.task], rules, indexes)
    if obfuscate:
        rows = asyncio.run(with_renamed_twins(rows, opened, backend, jobs, report.renamed, progress))
    if impossible:
        rows = asyncio.run(with_twins(rows, opened, backend, jobs, report.twins, progress))
    report.seconds = round(time.monotonic() - started, 1)
    publish(out, rows, report.row(), request, snapshots)
    journal.remove()
    if report.tasks and (pack or (out / BLOBS).is_dir()):  # a set that carries its archives continues to do so
        pack_set(out, progress=progress)
    return report


@contextmanager
def _machines(ray: str | None, jobs: int) -> Iterator[Machines]:
    """Yield the place where the work is done. Raises GeneratorError when Ray cannot be used."""
    if ray is None:
        yield Processes(jobs)
        return
    from .machines.ray_cluster import RayCluster
    from .machines.ray_connection import connected

    with connected(ray, jobs) as module:
        cluster = RayCluster(module)
        try:
            yield cluster
        finally:
            cluster.close()


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


def _editor(endpoint: ModelEndpoint | None, out: Path) -> ModelEndpoint:
    """Return the endpoint that rewrites statements. Raises GeneratorError without one, LLMError without its key."""
    if endpoint is None:
        raise GeneratorError("a language model rewrites statements; name its endpoint with --llm URL --model NAME")
    editor = replace(endpoint, answers=out / ANSWERS)
    editor.client()  # a missing key must not cost the work before
    return editor


def _built(
    machines: Machines, sources: list[str], options: SnapshotOptions, report: Report, progress: Progress
) -> list[Built]:
    """Return the Snapshots of all sources, each once: a mistake in the last should not cost the work on the others."""
    by_digest: dict[str, Built] = {}
    for built, cost in machines.builds(sources, options, progress):
        by_digest.setdefault(built.digest, built)
        report.add_build(f"{built.name} {built.version}", cost)
    return list(by_digest.values())


@dataclass
class _Check:
    """Checks the candidates of all Snapshots; verdicts of an interrupted run come from the journal."""

    journal: Journal  # verdicts of an interrupted run, and of this one
    settings: Settings  # how candidates are checked
    report: Report  # gets the reasons why generators do not fit, and what the work cost
    progress: Progress  # called after every verdict
    keys: list[str] = field(default_factory=list)  # of all candidates, in the order of the seed
    pending: dict[str, tuple[str, Candidate, Built]] = field(default_factory=dict)  # phase and candidate by key
    done: dict[str, Row] = field(default_factory=dict)  # verdicts by key
    phases: dict[str, list[str]] = field(default_factory=dict)  # keys of each phase

    def rows(self, machines: Machines, snapshots: list[Built], plan: Plan) -> list[Row]:
        """Return one Row per candidate, in the order of the seed. Raises GeneratorError when there is none."""
        works = self._works(machines.proposals(snapshots, plan), len(snapshots))
        for judged in machines.verdicts(works, self.settings):
            self._add(judged)
        unfit, failed = self.report.not_applicable, self.report.failed
        if not self.keys and failed:
            raise GeneratorError(f"no candidate: {failed_text(*next(iter(failed.items())))}")
        if not self.keys and unfit:
            raise NotApplicable(next(iter(unfit.values())))
        if not self.keys:
            raise GeneratorError(
                f"nothing to propose in {', '.join(self.report.sources)}: no tested code fits the knobs; change them "
                "or take another source"
            )
        return [self.done[key] for key in self.keys]

    def _works(self, proposed: Iterable[Proposed], sources: int) -> Iterator[Work]:
        """Yield the candidates of each Snapshot that have no verdict yet."""
        for number, item in enumerate(proposed, 1):
            name = f"{item.built.name} {item.built.version}"
            phase = name + (f" ({number} of {sources})" if number > 1 else "")
            self.report.proposal_cpu_seconds = round(self.report.proposal_cpu_seconds + item.cpu_seconds, 3)
            self.report.add_build(name, item.cost)
            self.report.not_applicable |= item.proposals.unfit
            self.report.failed |= item.proposals.failed
            # A verdict under other settings is not a verdict for this run.
            candidates = item.proposals.candidates
            keys = [f"{candidate_key(item.built.digest, candidate)} {self.settings.knobs}" for candidate in candidates]
            by_key = dict(zip(keys, candidates, strict=True))
            self.keys += keys
            self.phases[phase] = list(by_key)
            self.done |= {key: row for key in by_key if (row := self.journal.get(key)) is not None}
            waiting = {key: candidate for key, candidate in by_key.items() if key not in self.done}
            self.pending |= {key: (phase, candidate, item.built) for key, candidate in waiting.items()}
            self._show(phase)
            yield Work(item.built, waiting)

    def _add(self, judged: Judged) -> None:
        """Write one verdict to the journal."""
        phase, candidate, built = self.pending.pop(judged.key)
        verdict, source = judged.verdict, f"{built.name} {built.version}"
        task, rejection = (None, verdict) if isinstance(verdict, Rejection) else (verdict, None)
        cpu = round(judged.cpu_seconds, 3)
        row = Row(source, candidate.generator.name, candidate.entity, task, rejection, cpu)
        self.done[judged.key] = row
        self.report.add_build(source, judged.cost)
        self.journal.add(judged.key, row)
        self._show(phase)

    def _show(self, phase: str) -> None:
        rows = [self.done[key] for key in self.phases[phase] if key in self.done]
        rejections = [row.rejection for row in rows if row.rejection is not None]
        accepted, last = len(rows) - len(rejections), rejections[-1].reason if rejections else ""
        total = len(self.phases[phase])
        self.progress(ProgressUpdate(phase, len(rows), total, accepted, len(rejections), last))


def without_duplicates(rows: list[Row], fingerprints: Sequence[Fingerprint]) -> list[Row]:
    """Return the same rows in their order; a task that repeats an earlier one is rejected (V6)."""
    repeats = duplicates(fingerprints)
    return [
        replace(row, task=None, rejection=Rejection("v6_duplicate", f"the same exercise as {original}"))
        if row.task is not None and (original := repeats.get(row.task.task_id))
        else row
        for row in rows
    ]


def refuse_unfree(snapshots: Iterable[Built]) -> None:
    """Raise GeneratorError unless every licence is known to be permissive, because rows quote the code."""
    for item in snapshots:
        if not is_permissive(item.licence):
            problem = (
                f"is under {item.licence}, which is not known to be permissive"
                if item.licence
                else "names no licence that Etude recognizes"
            )
            raise GeneratorError(f"{item.name} {item.version} {problem}; take another source, or pass --any-licence")
