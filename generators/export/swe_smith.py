"""Tasks as SWE-smith rows: ``patch`` makes the bug, and its reverse is the solution.

SWE-smith finds how to test a row through the profile that is registered for its ``repo``; ``docs/exports.md`` has one
for these rows. ``instance_id`` starts with the name of that repository, as its harness demands, so that the id of the
task is in another column. Three columns are more than SWE-smith's own: ``task_id``, ``base_commit`` (the only commit of
the task's workspace, to which the bug belongs), and ``test_patch``, which adds the hidden tests to it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...environments.tasks.task_paths import expected_test_files
from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError
from ...models import Task
from .expressible import refuse_episodes, refuse_other_verifiers

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)


def rows(tasks: TaskSet, episodes: Path | None = None) -> list[dict[str, Any]]:
    """Return tasks as rows of SWE-smith, in order. Raises ExportError for episodes and tasks without a repository."""
    refuse_episodes(episodes, "swe-smith")
    return [row(task) for task in tasks]


def row(task: Task) -> dict[str, Any]:
    """Return the row of a task. Raises ExportError for one without a repository."""
    refuse_other_verifiers(task)
    if not (task.base_commit and task.patch and task.FAIL_TO_PASS):
        raise ExportError(f"{task.task_id} has no base_commit, patch or FAIL_TO_PASS; export repository tasks only")
    name = f"etude__{task.repo.replace('/', '_')}.{task.base_commit[:8]}"
    return {
        "instance_id": f"{name}.{re.sub(r'[^A-Za-z0-9_-]+', '_', task.task_id)}",
        "repo": f"swesmith/{name}",
        "patch": reverse(task),
        "FAIL_TO_PASS": task.FAIL_TO_PASS,
        "PASS_TO_PASS": task.PASS_TO_PASS,
        "image_name": f"swebench/swesmith.x86_64.{name.replace('__', '_1776_')}".lower(),
        "problem_statement": task.problem_statement,
        "base_commit": task.base_commit,
        "test_patch": task.test_patch,
        "test_cmd": _test_command(task),
        "task_id": task.task_id,
    }


def _test_command(task: Task) -> str:
    """Return the command that runs the expected tests in ``/testbed`` as SWE-smith's parser reads them."""
    options = [f"-o {shlex.quote(option)}" for option in task.pytest.options if "=" in option and option[0] != "-"]
    fixed = ["python -m pytest --disable-warnings --color=no --tb=no --verbose -p no:cacheprovider"]
    return " ".join([*fixed, *options, *map(shlex.quote, expected_test_files(task))])


def reverse(task: Task) -> str:
    """Return the patch that undoes the task's solution. Raises ExportError for a binary patch."""
    if "\nGIT binary patch\n" in task.patch:
        raise ExportError(f"the solution of {task.task_id} changes a binary file; export tasks of source text only")
    return "".join(_reversed(task.patch))


def _reversed(patch: str) -> Iterator[str]:
    lines = re.findall(r"[^\n]*\n|[^\n]+$", patch)
    position = 0
    while position < len(lines):
        line = lines[position]
        hunk = _HUNK.fullmatch(line)
        if hunk:
            old, new = int(hunk[2] or 1), int(hunk[4] or 1)
            end = _end_of_hunk(lines, position + 1, old, new)
            yield f"@@ -{_range(hunk[3], hunk[4])} +{_range(hunk[1], hunk[2])} @@{hunk[5]}"
            yield from _swapped(lines[position + 1 : end])
            position = end
            continue
        if line.startswith("--- ") and position + 1 < len(lines):
            yield from _names(line, lines[position + 1])
            position += 2
            continue
        yield _header(line)
        position += 1


def _end_of_hunk(lines: list[str], position: int, old: int, new: int) -> int:
    while position < len(lines) and (old > 0 or new > 0 or lines[position].startswith("\\")):
        old -= lines[position][0] in " -"
        new -= lines[position][0] in " +"
        position += 1
    return position


def _swapped(lines: list[str]) -> Iterator[str]:
    """Yield a hunk's lines with the signs exchanged, removed lines before added ones, notes with their lines."""
    added: list[str] = []
    removed: list[str] = []
    target: list[str] | None = None
    for line in lines:
        if line.startswith("\\"):
            if target is None:
                yield line
            else:
                target.append(line)
        elif line[0] in "+-":
            target = removed if line[0] == "+" else added
            target.append(("-" if line[0] == "+" else "+") + line[1:])
        else:
            yield from (*removed, *added)
            removed, added, target = [], [], None
            yield line
    yield from (*removed, *added)


def _range(start: str, length: str | None) -> str:
    return start if length is None else f"{start},{length}"


def _names(old: str, new: str) -> Iterator[str]:
    """Yield the two lines that name a file, exchanged; ``/dev/null`` stays what it is."""
    before, after = (re.sub(r'^("?)[ab]/', r"\1{}/", line[4:]) for line in (new, old))
    yield "--- " + before.replace("{}/", "a/", 1)
    yield "+++ " + after.replace("{}/", "b/", 1)


def _header(line: str) -> str:
    """Return a line of a file's header as it is in the reversed patch."""
    if line.startswith("index "):
        return re.sub(r"^index (\w+)\.\.(\w+)", r"index \2..\1", line)
    for first, second in (("new file mode", "deleted file mode"), ("deleted file mode", "new file mode")):
        if line.startswith(first):
            return second + line[len(first) :]
    return line
