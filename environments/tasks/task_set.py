"""Task sets: ``tasks.jsonl`` in a folder, one task per line, secret parts included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from ...errors import TaskSetError, UnknownName
from ...models import PublicTask, Task
from ...registry import did_you_mean
from ..snapshots.store.cache import write_whole

FILE_NAME = "tasks.jsonl"
BLOBS = "blobs"


class Tasks(Protocol):
    """What sessions and servers ask of the tasks they play; an endless set lists its first ones."""

    def __len__(self) -> int: ...

    def list_splits(self) -> list[str]: ...

    def list_tasks(self, split: str) -> list[PublicTask]: ...

    def size(self, split: str) -> int: ...

    def get_task(self, split: str, index: int) -> Task: ...

    def by_id(self, task_id: str) -> Task: ...

    def draw(self, split: str | None, seed: int) -> Task: ...


class TaskSet:
    """An ordered set of tasks with unique ids, by split, by index and by id; ``blobs``: folder of its archives."""

    def __init__(self, tasks: Iterable[Task], blobs: Path | None = None) -> None:
        self.blobs = blobs
        self._by_id: dict[str, Task] = {}
        self._splits: dict[str, list[Task]] = {}
        for task in tasks:
            if task.task_id in self._by_id:
                raise TaskSetError(f"task_id {task.task_id!r} occurs twice: make ids unique")
            self._by_id[task.task_id] = task
            self._splits.setdefault(task.split, []).append(task)

    @classmethod
    def load(cls, path: Path) -> TaskSet:
        """Read ``path/tasks.jsonl`` (or the file itself). Raises TaskSetError with the line that is wrong."""
        file = path / FILE_NAME if path.is_dir() else path
        try:
            lines = file.read_bytes().split(b"\n")
        except FileNotFoundError:
            raise TaskSetError(f"no {FILE_NAME} in {path}: make one with `etude generate --out {path}`") from None
        except OSError as error:
            raise TaskSetError(f"cannot read {file}: {error.strerror}") from None
        tasks: list[Task] = []
        first: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            task = _parse(line, f"{file}:{number}")
            if task.task_id in first:
                raise TaskSetError(
                    f"{file}:{number}: task_id {task.task_id!r} is on line {first[task.task_id]} already"
                )
            first[task.task_id] = number
            tasks.append(task)
        if not tasks:
            raise TaskSetError(f"{file} holds no task: generate some with `etude generate`")
        return cls(tasks, file.parent / BLOBS)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._by_id.values())

    @property
    def num_tasks(self) -> int:
        return len(self)

    def list_splits(self) -> list[str]:
        """Names of the splits, in the order in which they first occur."""
        return list(self._splits)

    def list_tasks(self, split: str) -> list[PublicTask]:
        """The public parts of a split's tasks. Raises UnknownName."""
        return [task.public() for task in self._split(split)]

    def get_task(self, split: str, index: int) -> Task:
        """Raises UnknownName for the split, IndexError for the index (negative ones included)."""
        tasks = self._split(split)
        if not 0 <= index < len(tasks):
            raise IndexError(f"split {split!r} has {len(tasks)} tasks: index {index} is out of range")
        return tasks[index]

    def by_id(self, task_id: str) -> Task:
        """Raises UnknownName with the nearest id."""
        if task_id not in self._by_id:
            raise UnknownName(did_you_mean("task", task_id, self._by_id))
        return self._by_id[task_id]

    def draw(self, split: str | None, seed: int) -> Task:
        """A task of ``split`` (None: of all) that ``seed`` chooses. Raises UnknownName; ValueError without tasks."""
        pool = list(self._by_id.values()) if split is None else self._split(split)
        if not pool:
            raise ValueError("there are no tasks")
        return pool[int.from_bytes(hashlib.sha256(f"task {seed}".encode()).digest()[:8], "big") % len(pool)]

    def size(self, split: str) -> int:
        """Number of tasks in a split. Raises UnknownName."""
        return len(self._split(split))

    def _split(self, split: str) -> list[Task]:
        if split not in self._splits:
            raise UnknownName(did_you_mean("split", split, self._splits))
        return self._splits[split]


def write_tasks(folder: Path, tasks: Iterable[Task]) -> Path:
    """Write ``folder/tasks.jsonl``: readers see the old file or the new one, never half of it. Returns its path."""
    rows = (json.dumps(task.model_dump(mode="json"), ensure_ascii=False, sort_keys=True) + "\n" for task in tasks)
    write_whole(folder / FILE_NAME, "".join(rows).encode())
    return folder / FILE_NAME


def _parse(line: bytes, place: str) -> Task:
    try:
        return Task.model_validate(json.loads(line))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "row"
        if first["type"] == "extra_forbidden":
            raise TaskSetError(f"{place}: unknown field {field}: remove it, or upgrade etude") from None
        raise TaskSetError(f"{place}: {field}: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise TaskSetError(f"{place}: not JSON: {error}; restore the file, or generate it again") from None
    except RecursionError:
        raise TaskSetError(f"{place}: not JSON: nested too deeply") from None
