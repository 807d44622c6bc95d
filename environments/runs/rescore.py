"""``etude rescore``: the episodes of a run with today's annotations, findings and grades, beside the old ones.

``OUT/episodes.jsonl`` gets one row per episode when it is ready, so that an interrupted command can be resumed; the
settings of a row name the line that it was made from. ``OUT/rescore.json`` says what changed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import RunError, UnwritableRow
from ...models import Episode, ErrorTurn
from ..snapshots.store.cache import write_whole
from ..tasks.task_set import Tasks
from .parallel import at_once
from .played_tasks import PLAYED_TASKS
from .reader import Progress, Stored, stored_of
from .regrading import FAILURES, Regrader
from .writer import FILE_NAME, Lines, complete_lines

REPORT = "rescore.json"
SETTING = "rescored"
"""Setting of a row that names the line of the old run."""
ASPECTS = ("reward", "components", "findings", "error_turns", "hints", "diff")
"""What is compared."""


@dataclass(frozen=True)
class RescoreReport:
    """Differences between the stored episodes of a run and the same episodes with today's code."""

    run: str
    out: str
    episodes: int
    rescored: int
    """Episodes in ``out``."""
    earlier: int
    """Episodes among these that an earlier command wrote."""
    graded: int
    """Episodes among these with a valid reward."""
    reward_before: float | None
    """Mean reward of the graded episodes as stored."""
    reward: float | None
    """Mean reward of the same episodes today."""
    changed: dict[str, int] = field(default_factory=dict)
    """Number of episodes by what changed (``ASPECTS``)."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """A row for each changed episode: its ids, and before and after for what changed."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why an episode could not be graded again, by its place in the run; such an episode is not in ``out``."""

    @property
    def ok(self) -> bool:
        """Return whether every episode was graded again."""
        return not self.failures


@dataclass(frozen=True)
class _Line:
    """One episode of the old run."""

    number: int
    row: dict[str, Any]
    stored: Stored
    sha256: str


def free_folder(run: Path) -> Path:
    """Return the folder beside a run that a command resumes in or, when those are complete, starts in."""
    base = run if run.is_dir() else run.parent
    base = base if base.name.strip(".") else base.resolve()
    folders = (base.with_name(f"{base.name}-rescored{f'-{n}' if n > 1 else ''}") for n in itertools.count(1))
    return next(out for out in folders if not (out / REPORT).exists())


async def rescore_run(
    run: Path,
    sets: Sequence[Tasks],
    out: Path,
    *,
    backend: str = "auto",
    jobs: int = 1,
    progress: Progress = lambda phase, done, total: None,
) -> RescoreReport:
    """Write every episode of ``run`` with today's annotations, findings and grade to ``out`` and compare the two.

    ``sets`` are searched for the tasks. Episodes that ``out`` holds already are not graded again. Raises RunError,
    before anything is written, for a run that cannot be read and for an ``out`` with other content.
    """
    old = _read(run)
    _check_apart(run, out)
    new = _earlier(out, old)
    earlier = len(new)
    regrader, failures = Regrader(tuple(sets), backend), dict[str, str]()
    todo = [line for line in old if line.number not in new]
    for task_id in {line.stored.episode.task_id for line in todo if line.stored.valid and line.stored.log is None}:
        regrader.locate(task_id)

    async def one(line: _Line) -> None:
        try:
            again = await regrader.rescored(line.stored)
            place = {"run": str(run), "line": line.number, "sha256": line.sha256}
            row = {name: value for name, value in line.row.items() if name not in Episode.model_fields}
            row["settings"] = {**line.stored.settings, SETTING: place}
            writer.write(row, again.episode)
            new[line.number] = again
        except (*FAILURES, UnwritableRow) as error:
            failures[f"{line.stored.episode.task_id} (line {line.number})"] = str(error)

    with Lines(out / FILE_NAME) as writer:
        await at_once(todo, jobs, one, lambda done: progress("grade", earlier + done, len(old)))
    report = _compare(run, out, old, new, earlier, failures)
    played_tasks = (run if run.is_dir() else run.parent) / PLAYED_TASKS
    if played_tasks.is_file() and out.is_dir():
        shutil.copyfile(played_tasks, out / PLAYED_TASKS)
    if report.ok:
        write_whole(out / REPORT, (json.dumps({**asdict(report), "ok": True}, indent=2) + "\n").encode())
    return report


def _read(run: Path) -> list[_Line]:
    """Return the episodes of a run. Raises RunError."""
    file = run / FILE_NAME if run.is_dir() else run
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}; name a run that `etude run` played") from None
    episodes = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        stored = stored_of(row)
        if stored is None:
            raise RunError(f"{file}:{number} is not an episode; remove the line, or play the run again")
        episodes.append(_Line(number, row, stored, hashlib.sha256(line).hexdigest()))
    if not episodes:
        raise RunError(f"{file} holds no episode; name a run that `etude run` played")
    return episodes


def _check_apart(run: Path, out: Path) -> None:
    """Raise RunError when ``out`` is the folder of the run itself."""
    if out.resolve() == (run if run.is_dir() else run.parent).resolve():
        raise RunError(f"{out} holds the old episodes; choose another --out")


def _earlier(out: Path, old: Sequence[_Line]) -> dict[int, Stored]:
    """Return the episodes that ``out`` holds, by the line they were made from. Raises RunError for other content."""
    digests = {line.number: line.sha256 for line in old}
    episodes: dict[int, Stored] = {}
    for number, text in enumerate(complete_lines(out / FILE_NAME), start=1):
        try:
            stored = stored_of(json.loads(text))
            place = stored.settings[SETTING] if stored is not None else {}
            same = digests[place["line"]] == place["sha256"]
        except (ValueError, KeyError, TypeError):
            stored, same = None, False
        if stored is None or not same:
            raise RunError(f"{out / FILE_NAME}:{number} is not an episode of this run; choose another --out")
        episodes[place["line"]] = stored
    return episodes


def _compare(
    run: Path, out: Path, old: Sequence[_Line], new: dict[int, Stored], earlier: int, failures: dict[str, str]
) -> RescoreReport:
    changes = []
    counts: Counter[str] = Counter()
    pairs = [(line, new[line.number]) for line in old if line.number in new]
    for line, again in pairs:
        before, after = (_aspects(stored.episode) for stored in (line.stored, again))
        differences = {name: [before[name], after[name]] for name in ASPECTS if before[name] != after[name]}
        counts.update(list(differences))
        if differences:
            episode = again.episode
            about = {"line": line.number, "agent": again.agent, "task_id": episode.task_id, "sample": again.sample}
            changes.append({"episode_id": episode.episode_id, **about, "changes": differences})
    graded = [(line.stored, again) for line, again in pairs if line.stored.valid and again.valid]
    return RescoreReport(
        run=str(run),
        out=str(out),
        episodes=len(old),
        rescored=len(pairs),
        earlier=earlier,
        graded=len(graded),
        reward_before=_mean([before for before, _ in graded]),
        reward=_mean([after for _, after in graded]),
        changed={name: counts[name] for name in ASPECTS if counts[name]},
        changes=changes,
        failures=failures,
    )


def _aspects(episode: Episode) -> dict[str, Any]:
    """Return what is compared of an episode, in a short form."""
    reward = episode.reward
    return {
        "reward": reward.value if reward is not None and reward.valid else None,
        "components": reward.components if reward is not None else {},
        "findings": sorted({f"{finding.exploit_id} {finding.severity}" for finding in episode.findings}),
        "error_turns": [_place(error) for error in episode.error_turns],
        "hints": [f"{_place(error)}: {hint.text}" for error in episode.error_turns for hint in error.hints],
        "diff": [f"{change.path} {change.kind}" for change in episode.diff],
    }


def _place(error: ErrorTurn) -> str:
    return f"turn {error.turn} {error.kind}"


def _mean(episodes: Sequence[Stored]) -> float | None:
    values = [stored.episode.reward.value for stored in episodes if stored.episode.reward is not None]
    return sum(values) / len(values) if values else None
