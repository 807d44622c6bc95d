"""The report: a page with the episodes of stored runs, their totals and their kinds of errors, as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

from ...environments.runs.played_tasks import read_played_tasks
from ...environments.runs.reader import Progress, Stored, read_run
from ...environments.runs.writer import FILE_NAME
from ...environments.snapshots.store.cache import check_new_file, write_whole
from ...errors import ReportError
from .assembly import file_page, packed
from .details import detail_of
from .rows import Origin, row_of
from .safe_text import one_line
from .task_texts import Bases, Solutions, solutions, workspaces
from .views import EpisodeView, behaviour, message, recovery

MAX_EPISODES = 10_000
"""Episodes of one page."""
PLAIN_EPISODES = 500
"""Episodes of the part of the page that needs no script."""
PAGE_CHARACTERS = 16_000_000
"""Characters of the runs' own text in that part, about; a browser needs a few times as many bytes."""
EPISODE_CHARACTERS = 400_000
"""Characters of one episode's own text, about."""
_LEAST_CHARACTERS = 20_000
_ALL_CHARACTERS = 200_000_000
_PACKED_BYTES = 48_000_000
"""Bytes of the packed episodes; those that do not fit are in the list alone."""


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


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    tasks: Path | None = None,
    reveal: bool = False,
    training: Sequence[Mapping[str, Any]] = (),
    progress: Progress = lambda phase, done, total: None,
) -> Report:
    """Write the report of the runs' episodes to ``out``.

    With the folder ``tasks`` of their task set, diffs are shown against the workspace. ``reveal`` adds the names of
    hidden tests and, with ``tasks``, the difference from the reference solution. ``training`` are curves of training
    runs (``index_of``). Raises RunError, ReportError, and for ``tasks`` TaskSetError and SnapshotError.
    """
    check_target(out)
    bases = workspaces(tasks) if tasks is not None else None
    solved = solutions(tasks) if tasks is not None and reveal else None
    episodes: list[tuple[Origin, Stored]] = []
    left_out = 0
    curves = {item["run"] for item in training}
    for number, run in enumerate(runs):
        if number in curves and not (run / FILE_NAME).is_file():
            continue
        features = read_played_tasks(run) if run.is_dir() else {}
        for place, stored in enumerate(read_run(run, progress)):
            if len(episodes) < MAX_EPISODES:
                episodes.append((Origin(number, place, features.get(stored.episode.task_id)), stored))
            else:
                left_out += 1
    if not episodes and not training:
        raise ReportError(f"no episodes in {', '.join(map(str, runs))}: `etude run` plays some")
    totals = _totals([stored for _, stored in episodes])
    names = [str(run) for run in runs]
    lines = _lines(names, episodes, bases, solved, training, progress, reveal=reveal)
    filters: dict[str, Callable[..., Any]] = {
        "seconds": _seconds,
        "number": "{:.3g}".format,
        "count": _count,
        "line": one_line,
        "behaviour": behaviour,
        "message": message,
        "recovery": recovery,
    }
    plain = _plain(names, episodes, bases, totals, left_out)
    data = file_page(f"Etude report: {', '.join(names)}", lines, filters, plain).encode()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, data)
    except OSError as error:
        raise ReportError(f"cannot write {out}: {error.strerror}; name another file") from error
    return Report(
        str(out), totals.episodes, left_out, totals.error_turns, totals.hints, totals.findings, size=len(data)
    )


def check_target(out: Path) -> None:
    """Raise ReportError when the page cannot be written."""
    try:
        check_new_file(out)
    except OSError as error:
        raise ReportError(f"cannot write {out}: {error.strerror}; name another file") from None


def index_of(
    runs: Sequence[str], rows: Sequence[Mapping[str, Any]], training: Sequence[Mapping[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return what the page loads first: runs, rows of episodes, and the curves of training runs by ``run``."""
    return {"runs": [one_line(name, 200) for name in runs], "rows": list(rows), "training": list(training), **more}


def _lines(
    names: Sequence[str],
    episodes: Sequence[tuple[Origin, Stored]],
    bases: Bases | None,
    solved: Solutions | None,
    training: Sequence[Mapping[str, Any]],
    progress: Progress,
    *,
    reveal: bool,
) -> Iterator[str]:
    """Yield the index, then each episode, packed. The same episodes give the same lines."""
    rows = [row_of(stored, origin) for origin, stored in episodes]
    yield packed(index_of(names, rows, training, reveal=reveal))
    room = min(EPISODE_CHARACTERS, max(_LEAST_CHARACTERS, _ALL_CHARACTERS // max(1, len(episodes))))
    size = 0
    for done, (_, stored) in enumerate(episodes):
        if done % 100 == 0:
            progress("report", done, len(episodes))
        task_id = stored.episode.task_id
        base = bases(task_id) if bases else None
        solution = (lambda name=task_id: solved(name)) if solved else None
        line = packed(detail_of(stored, base=base, solution=solution, room=room, reveal=reveal))
        size += len(line)
        yield line if size <= _PACKED_BYTES else ""


def _plain(
    names: Sequence[str],
    episodes: Sequence[tuple[Origin, Stored]],
    bases: Bases | None,
    totals: Totals,
    left_out: int,
) -> dict[str, Any]:
    """Return the values of the part of the page that is shown without scripts."""
    shown = list(islice(episodes, PLAIN_EPISODES))
    room = min(EPISODE_CHARACTERS, PAGE_CHARACTERS // max(1, len(shown)))
    views = [
        EpisodeView(number, names[origin.run], stored, bases(stored.episode.task_id) if bases else None, room)
        for number, (origin, stored) in enumerate(shown, start=1)
    ]
    return {
        "episodes": views,
        "left_out": left_out + len(episodes) - len(shown),
        "kinds": _kinds([stored for _, stored in episodes]),
        "runs": names,
        "totals": totals,
    }


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


def _seconds(value: float) -> str:
    if value < 0.0995:
        return f"{value * 1000:.3g} ms" if value >= 0.001 else "< 1 ms"
    return f"{value:.1f} s" if value < 60 else f"{value // 60:.0f} min {value % 60:.0f} s"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
