"""One stored episode with the annotations, the findings and the grade that today's code gives it.

What a stored record holds is graded directly. Where it lacks a part, such as the content of refused changes or the
state of a drill, the recorded actions are played again, and the grade counts only when they had the same results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...errors import (
    GraderError,
    InfrastructureError,
    RunError,
    SandboxError,
    SessionError,
    SnapshotError,
    UnknownName,
)
from ...models import Episode, Task
from .. import ENVIRONMENTS
from ..base import BaseSession
from ..grading import grade_submission
from ..logs.stored import annotated_again
from ..tasks.task_set import Tasks
from .reader import Stored

FAILURES = (GraderError, InfrastructureError, RunError, SandboxError, SessionError, SnapshotError, UnknownName)
"""Errors because of which one episode has no new grade."""
DIFFERENT = "replaying the recorded actions gave different results"


@dataclass(frozen=True)
class Regrader:
    """Grades stored episodes again with the tasks of some sets."""

    sets: tuple[Tasks, ...]
    """Sets that are searched for an episode's task, the first one first."""
    backend: str = "auto"

    async def rescored(self, stored: Stored) -> Stored:
        """Return the episode with today's annotations and, where it had a grade, today's grade.

        Raises one of FAILURES when it cannot be graded again.
        """
        if stored.log is None and stored.valid and stored.episode.end != "give_up":
            tasks, task = self.locate(stored.episode.task_id)
            stored = replace(stored, episode=await self._graded(stored, tasks, task))
        return annotated_again(stored)

    def locate(self, task_id: str) -> tuple[Tasks, Task]:
        """Return a task and its set. Raises UnknownName."""
        for tasks in self.sets:
            try:
                return tasks, tasks.by_id(task_id)
            except UnknownName:
                continue
        raise UnknownName(f"no task set has the task {task_id!r}; name its folder with --tasks")

    async def _graded(self, stored: Stored, tasks: Tasks, task: Task) -> Episode:
        environment: type[BaseSession] = ENVIRONMENTS.load(task.environment)
        session = environment.open(tasks, backend=self.backend)
        episode = stored.episode
        try:
            submission = None if episode.injected else await session.stored_submission(task, episode)
            if submission is None:
                return await _replayed(session, stored)
            grade, diff = await grade_submission(replace(submission, turns=episode.turns))
        finally:
            await session.close()
        update = {"grade": grade, "diff": diff, "findings": list(grade.findings), "reward": grade.reward}
        return episode.model_copy(update=update)


async def _replayed(session: BaseSession, stored: Stored) -> Episode:
    """Play the recorded actions and return the episode with the grade. Raises RunError when the results differ."""
    episode = stored.episode
    arguments: dict[str, Any] = {"task_id": episode.task_id, "seed": episode.seed}
    if stored.settings.get("faults"):
        arguments["faults"] = stored.settings["faults"]
    observation = await session.reset(**arguments, replay=[turn.action for turn in episode.turns])
    again = session.episode()
    if not observation.done or again.end != episode.end or not _has_same_results(episode, again):
        raise RunError(DIFFERENT)
    update = {"grade": again.grade, "diff": again.diff, "findings": again.findings, "reward": again.reward}
    return episode.model_copy(update=update)


def _has_same_results(before: Episode, after: Episode) -> bool:
    """Return whether a replay led to the same world: the same diff or, in an environment without files, messages.

    Messages of a sandbox hold durations and process ids, which differ from run to run.
    """
    if before.sandbox is None:
        return [turn.messages for turn in before.turns] == [turn.messages for turn in after.turns]
    old, new = ({change.path: change for change in episode.diff} for episode in (before, after))
    graded = {path for path in old.keys() & new.keys() if "refused" not in (old[path].kind, new[path].kind)}
    return old.keys() == new.keys() and all(old[path].content == new[path].content for path in graded)
