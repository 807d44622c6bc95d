"""Files of a task, for diffs: its workspace, and the reference solution where it may be shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from ...environments.tasks.task_paths import solution_paths
from ...environments.tasks.task_set import TaskSet
from ...environments.tasks.task_trees import materials
from ...models import Task
from .changes import Base, tree_base
from .details import Solution

Bases = Callable[[str], Base | None]
"""Function from a task's id to what its workspace held; it returns None for a task that the task set lacks."""
Solutions = Callable[[str], Solution | None]
"""Function from a task's id to its reference solution; it returns None for a task without files."""


def workspaces(folder: Path) -> Bases:
    """Return the bases of a task set's workspaces; a snapshot that the cache lacks is unpacked or built.

    Raises TaskSetError; the function raises SnapshotError.
    """
    tasks, by_id = _load(folder)

    @cache
    def base(task_id: str) -> Base | None:
        task = by_id.get(task_id)
        if task is None or task.snapshot is None:
            return None
        return tree_base(materials(task, blobs=tasks.blobs).agent_tree)

    return base


def solutions(folder: Path) -> Solutions:
    """Return the reference solutions of a task set, which are secret. Raises as ``workspaces``."""
    tasks, by_id = _load(folder)

    @cache
    def solution(task_id: str) -> Solution | None:
        task = by_id.get(task_id)
        if task is None or task.snapshot is None or not task.patch:
            return None
        return solution_paths(task), tree_base(materials(task, blobs=tasks.blobs).solved_tree)

    return solution


def _load(folder: Path) -> tuple[TaskSet, dict[str, Task]]:
    tasks = TaskSet.load(folder)
    return tasks, {task.task_id: task for task in tasks}
