"""An episode that a user plays: its actions are stored until it ends, so that another process can resume it.

``OUT/unfinished-*.json`` holds the actions of an episode that is not over. When it ends, it becomes a row of
``OUT/episodes.jsonl`` like those of ``etude run``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError

from ...errors import RunError
from ...loop_thread import LoopThread
from ...models import Episode, Observation, Record, Reward, Task
from .. import ENVIRONMENTS
from ..base import BaseSession
from ..snapshots.store.cache import write_whole
from ..tasks.task_set import Tasks
from .played_tasks import write_played_tasks
from .scores import summarise
from .writer import Journal, check_settings

AGENT = "person"
"""Agent of the rows."""


class Unfinished(Record):
    """An episode that is not over: what is needed to play it up to its last turn."""

    task_id: str
    environment: str
    episode_id: str
    seed: int | None = None
    sample: int = 0
    settings: dict[str, Any] = Field(default_factory=dict)
    actions: list[dict[str, Any]] = Field(default_factory=list)


@dataclass(frozen=True)
class PlayResult:
    """Outcome of an episode that a user played."""

    task_id: str
    episode_id: str
    sample: int
    end: str
    reward: float
    components: dict[str, float]
    turns: int
    error_turns: int
    hints: int
    out: str
    findings: list[str] = field(default_factory=list)
    """Exploit ids of the findings."""
    valid: bool = True


class ManualEpisode:
    """One episode of a task, played turn by turn; to be used as a context manager.

    ``annotate`` is ``observation`` when error turns and their hints are shown. No time limit ends the episode.
    """

    def __init__(
        self,
        tasks: Tasks,
        task: Task,
        out: Path,
        *,
        backend: str = "auto",
        annotate: str = "observation",
        faults: str | None = None,
    ) -> None:
        """Prepare the episode; nothing is opened. Raises RunError for an ``out`` with other content or settings."""
        self.task = task
        self.out = out
        settings: dict[str, Any] = {"url": None, "sandbox": backend, "annotate": annotate}
        self._reset = {"annotate": annotate} | ({} if faults is None else {"faults": faults})
        self._journal = Journal(out, AGENT, {**settings, **self._reset})
        self._file = unfinished_file(out, task.task_id)
        self.unfinished = read_unfinished(self._file) if self._file.is_file() else None
        if self.unfinished is not None:
            check_settings(str(self._file), self.unfinished.settings, self._journal.settings)
        environment: type[BaseSession] = ENVIRONMENTS.load(task.environment)
        budget = replace(environment.default_budget, seconds=math.inf)
        self._session = environment.open(tasks, backend=backend, budget=budget)
        self._loop = LoopThread()

    def __enter__(self) -> Self:
        """Check that the episode can be written. Raises RunError."""
        try:
            self._journal.__enter__()
        except RunError:
            self._loop.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Close the sandbox; the actions of an episode that is not over remain in its file."""
        try:
            self._loop.run(self._session.close())
        finally:
            self._loop.stop()
            self._journal.__exit__(*error)

    def start(self) -> Observation:
        """Start the episode, or play the stored actions again. Raises SessionError and InfrastructureError."""
        unfinished = self.unfinished
        arguments: dict[str, Any] = dict(self._reset)
        if unfinished is not None:
            arguments |= {"seed": unfinished.seed, "episode_id": unfinished.episode_id, "replay": unfinished.actions}
        observation = self._loop.run(self._session.reset(task_id=self.task.task_id, **arguments))
        episode = self._session.episode()
        if unfinished is None:
            unfinished = Unfinished(
                task_id=self.task.task_id,
                environment=self.task.environment,
                episode_id=episode.episode_id,
                seed=episode.seed,
                sample=self._next_sample(),
                settings=self._journal.settings,
            )
        self.unfinished = unfinished
        return observation

    def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn and store its action. An episode that is over then is written to the run."""
        observation = self._loop.run(self._session.step(action))
        unfinished = self._started()
        unfinished.actions.append(dict(action))
        if not observation.done:
            write_whole(self._file, unfinished.model_dump_json(indent=2).encode("utf-8", "replace"))
        return observation

    def finish(self) -> PlayResult:
        """Write the episode, which is over, to the run, and return its outcome."""
        unfinished, episode = self._started(), self._session.episode()
        if episode.reward is None:
            episode.reward = Reward(valid=False, assurance=self.task.assurance)
        about = {
            "agent": AGENT,
            "cause": "",
            "sample": unfinished.sample,
            "settings": self._journal.settings,
            "usage": {},
        }
        self._journal.add(about, episode)
        self._file.unlink(missing_ok=True)
        write_played_tasks(self.out, [self.task])
        rows = self._journal.rows
        summary = summarise(AGENT, rows, rows, 1 + max(row["sample"] for row in rows), str(self.out))
        summary = replace(summary, settings=self._journal.settings, earlier=len(rows) - 1)
        text = json.dumps({**asdict(summary), "ok": summary.ok}, indent=2) + "\n"
        write_whole(self.out / "summary.json", text.encode())
        return _result(episode, episode.reward, unfinished.sample, self.out)

    def _started(self) -> Unfinished:
        if self.unfinished is None:
            raise RunError("the episode has not been started; call start first")
        return self.unfinished

    def _next_sample(self) -> int:
        samples = [sample for task_id, sample in self._journal.done if task_id == self.task.task_id]
        return max(samples, default=-1) + 1


def unfinished_file(out: Path, task_id: str) -> Path:
    """Return the file of a task's episode that is not over."""
    return out / f"unfinished-{hashlib.sha256(task_id.encode()).hexdigest()[:12]}.json"


def read_unfinished(file: Path) -> Unfinished:
    """Return an episode that is not over. Raises RunError."""
    try:
        return Unfinished.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise RunError(f"{file} is not an unfinished episode; delete it to start the task again") from None


def next_task(tasks: Tasks, environment: str, out: Path) -> Task:
    """Return the task of an environment that is to be played next: an unfinished one, else the first that is new.

    Raises RunError when ``out`` holds an episode of each.
    """
    for file in sorted(out.glob("unfinished-*.json")):
        unfinished = read_unfinished(file)
        if unfinished.environment == environment:
            return tasks.by_id(unfinished.task_id)
    done = {json.loads(line).get("task_id") for line in _lines(out)}
    for task in tasks:
        if task.task_id not in done:
            return task
    raise RunError(f"{out} holds an episode of every task of {environment}; choose another --out")


def _lines(out: Path) -> list[bytes]:
    file = out / "episodes.jsonl"
    return [line for line in file.read_bytes().split(b"\n")[:-1] if line.strip()] if file.is_file() else []


def _result(episode: Episode, reward: Reward, sample: int, out: Path) -> PlayResult:
    return PlayResult(
        task_id=episode.task_id,
        episode_id=episode.episode_id,
        sample=sample,
        end=episode.end or "none",
        reward=reward.value,
        components=reward.components,
        turns=len(episode.turns),
        error_turns=len(episode.error_turns),
        hints=sum(len(error.hints) for error in episode.error_turns),
        out=str(out),
        findings=[finding.exploit_id for finding in episode.findings],
        valid=reward.valid,
    )
