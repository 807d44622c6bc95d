"""Solve rates: what the episodes of many runs say about the tasks and about who played them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ...environments.runs.played_tasks import read_played_tasks
from ...environments.runs.reader import read_run
from ...environments.runs.writer import FILE_NAME
from ...environments.tasks.static_features import TaskFeatures
from ...errors import GeneratorError
from .item_response import Plays

SOLVED = 1.0
"""Reward of an episode that counts as solved."""


@dataclass(frozen=True)
class PlayLog:
    """The plays of some runs; the players are the runs, in the order of their names."""

    runs: list[str]
    """Names of the runs that hold scored episodes."""
    plays: list[Plays]
    """Plays of each task in each run."""
    features: dict[str, TaskFeatures]
    """Features of every played task."""

    def last_rates(self) -> dict[str, float]:
        """Return the solve rate of each task in the last run that played it."""
        return {item.task: item.solved / item.tries for item in sorted(self.plays, key=lambda item: item.player)}

    def solve_rate(self, player: int = -1) -> float:
        """Return the share of a run's episodes that solved their task; the default is the last run."""
        number = player % len(self.runs)
        plays = [item for item in self.plays if item.player == number]
        return sum(item.solved for item in plays) / sum(item.tries for item in plays)

    def of_both(self) -> list[str]:
        """Return the tasks that the last run which played them solved sometimes, and failed sometimes."""
        return sorted(task for task, rate in self.last_rates().items() if 0 < rate < 1)


def read_play_log(folder: Path, environment: str) -> PlayLog:
    """Return the plays in all runs of a folder, or in the one run that it is.

    The runs are those of one agent or model as it learns: ``step-2`` comes before ``step-10``. Impossible tasks, tasks
    of other environments and episodes without a score are left out. Raises GeneratorError for a folder without a
    scored episode, for a run of several agents, and for tasks that a run does not describe; RunError for files that
    cannot be read.
    """
    if not folder.is_dir():
        raise GeneratorError(f"--curriculum {folder} is not a folder; give the folder with the runs of `etude run`")
    files = sorted(folder.rglob(FILE_NAME), key=lambda file: _natural(file.parent.relative_to(folder)))
    if not files:
        raise GeneratorError(f"{folder} holds no run; play tasks with `etude run --tasks DIR --out {folder / 'run-1'}`")
    runs: list[str] = []
    plays: list[Plays] = []
    features: dict[str, TaskFeatures] = {}
    for run in (file.parent for file in files):
        tries, solved = _counts(run)
        described = read_played_tasks(run)
        missing = sorted(set(tries) - set(described))
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise GeneratorError(
                f"{run} does not describe the task {missing[0]!r}{more}; play it again with this version of etude, or "
                "move the run out of the folder"
            )
        possible = [
            task
            for task in sorted(tries)
            if described[task].environment == environment and not described[task].impossible
        ]
        if possible:
            plays += [Plays(len(runs), task, tries[task], solved[task]) for task in possible]
            features |= {task: described[task] for task in possible}
            runs.append(str(run.relative_to(folder)) if run != folder else run.name)
    if not plays:
        raise GeneratorError(
            f"no episode of a {environment} task in {folder} has a score; play such tasks with `etude run`, or see why "
            "none was scored in summary.json"
        )
    return PlayLog(runs, plays, features)


def _counts(run: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how often each task was played to a score, and how often it was solved. Raises GeneratorError."""
    valid = {stored.key: stored for stored in read_run(run) if stored.valid}
    agents = sorted({stored.agent for stored in valid.values()})
    if len(agents) > 1:
        raise GeneratorError(
            f"{run} holds episodes of {len(agents)} agents ({', '.join(agents)}); a curriculum follows one, so give "
            "each its own run"
        )
    tries: Counter[str] = Counter()
    solved: Counter[str] = Counter()
    for stored in valid.values():
        reward = stored.episode.reward
        tries[stored.episode.task_id] += 1
        solved[stored.episode.task_id] += reward is not None and reward.value == SOLVED
    return tries, solved


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in names by their value."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]
