"""The page: episodes of stored runs, their totals and their kinds of errors, rendered from ``page.html``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from ...environments.runs.reader import Stored, read_run
from ...environments.snapshots.store.cache import write_whole
from ...environments.tasks.task_set import TaskSet
from ...environments.tasks.task_trees import materials
from ...errors import ReportError
from ...html_pages import inline, page_template
from .changes import Base, tree_base
from .safe_text import one_line
from .views import EpisodeView, behaviour, message, recovery

if TYPE_CHECKING:
    import jinja2

Bases = Callable[[str], Base | None]
"""Function from a task's id to what its workspace held; it returns None for a task that the task set lacks."""

MAX_EPISODES = 500
"""Episodes of one page."""
PAGE_CHARACTERS = 16_000_000
"""Characters of the runs' own text on a page, about; a browser needs a few times as many bytes."""
EPISODE_CHARACTERS = 400_000
"""Characters of one episode's own text, about."""
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Report:
    """Result of ``write_report``."""

    out: str
    """File that was written."""
    episodes: int
    """Episodes on the page."""
    left_out: int
    """Episodes that are not on the page."""
    error_turns: int
    """Error turns of the episodes on the page."""
    hints: int
    """Hints at these error turns."""
    findings: int
    """Findings of the episodes on the page."""
    size: int
    """Bytes of the file."""


@dataclass(frozen=True)
class Totals:
    """Sums over the episodes of a page."""

    episodes: int
    reward: float | None
    turns: int
    error_turns: int
    hints: int
    findings: int
    invalid: int


@dataclass(frozen=True)
class KindRow:
    """One line of the table of kinds."""

    kind: str
    count: int
    recovered: int
    followed: int
    """Error turns that another turn came after; only these can be recovered."""
    turns: float | None
    """Median number of turns to recover."""
    hinted: int


def write_report(runs: Sequence[Path], out: Path, *, tasks: Path | None = None) -> Report:
    """Write the report of the runs' episodes to ``out``.

    With the folder ``tasks`` of their task set, diffs are shown against the workspace. Raises RunError, ReportError,
    and for ``tasks`` TaskSetError and SnapshotError.
    """
    bases = _workspaces(TaskSet.load(tasks)) if tasks is not None else None
    episodes: list[tuple[str, Stored]] = []
    left_out = 0
    for run in runs:
        for stored in read_run(run):
            if len(episodes) < MAX_EPISODES:
                episodes.append((str(run), stored))
            else:
                left_out += 1
    if not episodes:
        raise ReportError(f"no episodes in {', '.join(map(str, runs))}: `etude run` plays some")
    totals = _totals([stored for _, stored in episodes])
    data = _render(episodes, totals, bases, left_out).encode()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, data)
    except OSError as error:
        raise ReportError(f"cannot write {out}: {error.strerror}; choose another --out") from error
    return Report(
        str(out), totals.episodes, left_out, totals.error_turns, totals.hints, totals.findings, size=len(data)
    )


def _workspaces(tasks: TaskSet) -> Bases:
    """Return the bases of a task set's workspaces; a snapshot that the cache lacks is unpacked or built."""
    by_id = {task.task_id: task for task in tasks}

    @cache
    def base(task_id: str) -> Base | None:
        task = by_id.get(task_id)
        if task is None or task.snapshot is None:
            return None
        return tree_base(materials(task, blobs=tasks.blobs).agent_tree)

    return base


def _render(episodes: Sequence[tuple[str, Stored]], totals: Totals, bases: Bases | None, left_out: int) -> str:
    """Return the page. The same episodes give the same bytes."""
    room = min(EPISODE_CHARACTERS, PAGE_CHARACTERS // len(episodes))
    views = [
        EpisodeView(number, run, stored, bases(stored.episode.task_id) if bases else None, room)
        for number, (run, stored) in enumerate(episodes, start=1)
    ]
    template = _template()
    style, style_hash = inline(_HERE / "style.css")
    script, script_hash = inline(_HERE / "script.js")
    return template.render(
        episodes=views,
        left_out=left_out,
        kinds=_kinds([stored for _, stored in episodes]),
        agents=sorted({view.agent for view in views}),
        runs=list(dict.fromkeys(view.run for view in views)),
        totals=totals,
        style=style,
        script=script,
        style_hash=style_hash,
        script_hash=script_hash,
    )


def _totals(episodes: Sequence[Stored]) -> Totals:
    rewards = [stored.episode.reward.value for stored in episodes if stored.valid and stored.episode.reward]
    errors = [error for stored in episodes for error in stored.episode.error_turns]
    return Totals(
        episodes=len(episodes),
        reward=fmean(rewards) if rewards else None,
        turns=sum(len(stored.episode.turns) for stored in episodes),
        error_turns=len(errors),
        hints=sum(len(error.hints) for error in errors),
        findings=sum(len(stored.episode.findings) for stored in episodes),
        invalid=sum(not stored.valid and (stored.log is None or bool(stored.episode.reward)) for stored in episodes),
    )


def _kinds(episodes: Sequence[Stored]) -> list[KindRow]:
    """Return the kinds of error turns, the most frequent first."""
    errors = [error for stored in episodes for error in stored.episode.error_turns]
    rows = []
    for kind in {error.kind for error in errors}:
        of_kind = [error for error in errors if error.kind == kind]
        followed = [error for error in of_kind if error.recovered is not None]
        turns = [error.turns_to_recover for error in followed if error.turns_to_recover is not None]
        recovered = sum(error.recovered is True for error in followed)
        hinted = sum(bool(error.hints) for error in of_kind)
        rows.append(KindRow(kind, len(of_kind), recovered, len(followed), median(turns) if turns else None, hinted))
    return sorted(rows, key=lambda row: (-row.count, row.kind))


@cache
def _template() -> jinja2.Template:
    return page_template(
        _HERE,
        seconds=_seconds,
        number="{:.3g}".format,
        count=_count,
        line=one_line,
        behaviour=behaviour,
        message=message,
        recovery=recovery,
    )


def _seconds(value: float) -> str:
    if value < 0.0995:
        return f"{value * 1000:.3g} ms" if value >= 0.001 else "< 1 ms"
    return f"{value:.1f} s" if value < 60 else f"{value // 60:.0f} min {value % 60:.0f} s"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
