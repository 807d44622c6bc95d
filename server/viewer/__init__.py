"""The report: stored runs as one HTML file that needs nothing else, safe to open whatever an agent wrote."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

import jinja2
from markupsafe import Markup

from ...environments.snapshots.store.cache import write_whole
from ...environments.tasks.task_set import TaskSet
from ...environments.tasks.task_trees import materials
from ...errors import ReportError
from .changes import Base, tree_base
from .stored import Stored, read_runs
from .views import EpisodeView, episode_view

Bases = Callable[[str], Base | None]
"""A task's id to what its workspace held; ``None`` for a task that is not known."""

MAX_EPISODES = 500
ROOM = 16_000_000
"""Characters of the runs' own text on a page, about; a browser takes a few times as many."""
EPISODE_ROOM = 400_000
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Report:
    """``episodes`` are on the page, ``left_out`` are not; ``size`` is in bytes."""

    out: str
    episodes: int
    left_out: int
    error_turns: int
    hints: int
    findings: int
    size: int


@dataclass(frozen=True)
class KindRow:
    """One line of the table of kinds; ``recovered`` of the ``known`` error turns that something came after."""

    kind: str
    count: int
    recovered: int
    known: int
    turns: float | None
    hinted: int


def write_report(runs: Sequence[Path], out: Path, *, tasks: Path | None = None) -> Report:
    """Write the report of the runs' episodes to ``out``.

    ``tasks`` is the folder of their task set: diffs are then shown against the workspace. Raises ReportError, and for
    ``tasks`` TaskSetError and SnapshotError.
    """
    bases = workspaces(TaskSet.load(tasks)) if tasks is not None else None
    stored: list[Stored] = []
    left_out = 0
    for each in read_runs(runs):
        if len(stored) < MAX_EPISODES:
            stored.append(each)
        else:
            left_out += 1
    if not stored:
        raise ReportError(f"no episodes in {', '.join(map(str, runs))}: `etude run` plays some")
    data = render(stored, bases, left_out).encode()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, data)
    except OSError as error:
        raise ReportError(f"cannot write {out}: {error.strerror}; choose another --out") from error
    errors = [error for each in stored for error in each.episode.error_turns]
    findings = sum(len(each.episode.findings) for each in stored)
    hints = sum(len(error.hints) for error in errors)
    return Report(str(out), len(stored), left_out, len(errors), hints, findings, len(data))


def workspaces(tasks: TaskSet) -> Bases:
    """The bases of a task set's workspaces; a snapshot that the cache lacks is unpacked or built."""

    known = {task.task_id: task for task in tasks}

    @cache
    def base(task_id: str) -> Base | None:
        task = known.get(task_id)
        if task is None or task.snapshot is None:
            return None
        return tree_base(materials(task, blobs=tasks.blobs).agent_tree)

    return base


def render(stored: Sequence[Stored], bases: Bases | None = None, left_out: int = 0) -> str:
    """The page. The same episodes give the same bytes."""
    room = min(EPISODE_ROOM, ROOM // max(1, len(stored)))
    episodes = [
        episode_view(number, each, bases(each.episode.task_id) if bases else None, room)
        for number, each in enumerate(stored, start=1)
    ]
    style, script = _asset("style.css"), _asset("script.js")
    return _template().render(
        episodes=episodes,
        left_out=left_out,
        kinds=_kinds(stored),
        agents=sorted({each.agent for each in episodes}),
        runs=list(dict.fromkeys(each.run for each in episodes)),
        totals=_totals(stored, episodes),
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _totals(stored: Sequence[Stored], episodes: Sequence[EpisodeView]) -> dict[str, float | int | None]:
    values = [each.value for each in episodes if each.valid and each.value is not None]
    return {
        "episodes": len(episodes),
        "reward": fmean(values) if values else None,
        "turns": sum(each.turn_count for each in episodes),
        "errors": sum(each.errors for each in episodes),
        "hints": sum(len(error.hints) for each in stored for error in each.episode.error_turns),
        "findings": sum(len(each.episode.findings) for each in stored),
        "invalid": sum(not each.valid for each in episodes),
    }


def _kinds(stored: Sequence[Stored]) -> list[KindRow]:
    """What went wrong, the most frequent first."""
    errors = [error for each in stored for error in each.episode.error_turns]
    rows = []
    for kind in {error.kind for error in errors}:
        of_kind = [error for error in errors if error.kind == kind]
        known = [error for error in of_kind if error.recovered is not None]
        turns = [error.turns_to_recover for error in known if error.turns_to_recover is not None]
        recovered = sum(error.recovered is True for error in known)
        hinted = sum(bool(error.hints) for error in of_kind)
        rows.append(KindRow(kind, len(of_kind), recovered, len(known), median(turns) if turns else None, hinted))
    return sorted(rows, key=lambda row: (-row.count, row.kind))


# --- The page ---------------------------------------------------------------------------------------------------


@cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(_HERE)
    # StrictUndefined: a field that a view does not have is a defect, not an empty place.
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(seconds=_seconds, number=_number, count=_count)
    return environment.get_template("page.html")


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """As a Content-Security-Policy names what may run: nothing else does, whatever is on the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _seconds(value: float) -> str:
    if value < 0.0995:
        return f"{value * 1000:.3g} ms" if value >= 0.001 else "< 1 ms"
    return f"{value:.1f} s" if value < 60 else f"{value // 60:.0f} min {value % 60:.0f} s"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


__all__ = ["Report", "ReportError", "render", "workspaces", "write_report"]
