"""The task's own solution, as the changes that a grader accepts."""

from __future__ import annotations

from ...models import FileChange, Task
from ..sandbox import Change
from ..tasks.task_paths import solution_paths
from ..tasks.task_trees import Materials
from .collect import collect


def own_solution(task: Task, trees: Materials) -> list[FileChange]:
    """Return the task's own solution as the changes that a grader accepts."""
    changes = []
    for path in solution_paths(task):
        file = trees.solved_tree / path
        if file.is_file():
            content = file.read_bytes()
            changes.append(Change(path=path, kind="file", size=len(content), executable=False, content=content))
        else:
            changes.append(Change(path=path, kind="deleted"))
    return collect(changes, task, trees.pristine_tree, trees.installed)[0]
