"""Task sets: ``tasks.jsonl`` in a folder, one task per line, secret parts included."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from ...errors import TaskSetError, UnknownName
from ...models import DEFAULT_ENVIRONMENT, PublicTask, Task
from ...registry import did_you_mean
from ..hub.download import task_folder
from ..rng import hashed_number
from ..snapshots.store.cache import write_whole

FILE_NAME = "tasks.jsonl"
BLOBS = "blobs"


class Tasks(ABC):
    """Tasks that sessions and servers play: a stored set, or an endless one that lists its first tasks."""

    blobs: Path | None = None
    """Folder of the archives that rows refer to."""

    @property
    @abstractmethod
    def default_split(self) -> str | None:
        """Return the split that an index counts in when none is named, None when one must be named."""

    @abstractmethod
    def list_splits(self) -> list[str]:
        """Return the names of the splits."""

    @abstractmethod
    def size(self, split: str) -> int:
        """Return how many tasks of a split are listed. Raises UnknownName."""

    @abstractmethod
    def get_task(self, split: str, index: int) -> Task:
        """Return a task by its place. Raises UnknownName for the split, IndexError for the index."""

    @abstractmethod
    def by_id(self, task_id: str) -> Task:
        """Return a task by its id. Raises UnknownName, which offers the nearest id."""

    @abstractmethod
    def draw(self, split: str | None, seed: int) -> Task:
        """Return a task of ``split`` (None: of any) that ``seed`` chooses. Raises UnknownName."""

    def list_tasks(self, split: str) -> list[PublicTask]:
        """Return the public parts of a split's listed tasks. Raises UnknownName."""
        return [self.get_task(split, index).public() for index in range(self.size(split))]

    def __len__(self) -> int:
        return sum(map(self.size, self.list_splits()))

    def __iter__(self) -> Iterator[Task]:
        """Iterate over the listed tasks."""
        return (self.get_task(split, index) for split in self.list_splits() for index in range(self.size(split)))

    @staticmethod
    def check_split(split: str, splits: Iterable[str]) -> None:
        """Raise UnknownName for a split that is not one of ``splits``."""
        if split not in splits:
            raise UnknownName(did_you_mean("split", split, splits))


class TaskSet(Tasks):
    """Ordered set of tasks with unique ids. ``blobs`` is the folder of its archives."""

    def __init__(self, tasks: Iterable[Task], blobs: Path | None = None) -> None:
        self.blobs = blobs
        self._by_id: dict[str, Task] = {}
        self._splits: dict[str, list[Task]] = {}
        for task in tasks:
            if task.task_id in self._by_id:
                raise TaskSetError(f"task_id {task.task_id!r} occurs twice; make ids unique")
            self._by_id[task.task_id] = task
            self._splits.setdefault(task.split, []).append(task)

    @classmethod
    def load(cls, path: Path) -> TaskSet:
        """Read ``path/tasks.jsonl`` (or the file itself, or the set at ``hub:USER/NAME@REVISION``).

        Raises TaskSetError, which names the line that is wrong, and HubError.
        """
        path = task_folder(path)
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
    def default_split(self) -> str | None:
        return next(iter(self._splits)) if len(self._splits) == 1 else None

    def list_splits(self) -> list[str]:
        return list(self._splits)

    def get_task(self, split: str, index: int) -> Task:
        tasks = self._split(split)
        if not 0 <= index < len(tasks):
            raise IndexError(f"split {split!r} has {len(tasks)} tasks: index {index} is out of range")
        return tasks[index]

    def by_id(self, task_id: str) -> Task:
        if task_id not in self._by_id:
            raise UnknownName(did_you_mean("task", task_id, self._by_id))
        return self._by_id[task_id]

    def draw(self, split: str | None, seed: int) -> Task:
        pool = list(self._by_id.values()) if split is None else self._split(split)
        if not pool:
            raise ValueError("the task set is empty; make tasks with `etude generate`")
        return pool[hashed_number(f"task {seed}") % len(pool)]

    def size(self, split: str) -> int:
        return len(self._split(split))

    def _split(self, split: str) -> list[Task]:
        self.check_split(split, self._splits)
        return self._splits[split]


def environment_of(tasks: Iterable[Task]) -> str:
    """Return the environment that all tasks name. Raises ValueError when they name several."""
    names = sorted({task.environment for task in tasks})
    if len(names) > 1:
        raise ValueError(f"the tasks name several environments ({', '.join(names)}); choose one with --env")
    return names[0] if names else DEFAULT_ENVIRONMENT


def write_tasks(folder: Path, tasks: Iterable[Task]) -> Path:
    """Write ``folder/tasks.jsonl`` atomically and return its path."""
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
        problem = first["msg"].removeprefix("Value error, ")
        remedy = "" if ";" in problem or ":" in problem else "; restore the file, or generate it again"
        raise TaskSetError(f"{place}: {field}: {problem}{remedy}") from None
    except ValueError as error:
        raise TaskSetError(f"{place}: not JSON: {error}; restore the file, or generate it again") from None
    except RecursionError:
        raise TaskSetError(f"{place}: not JSON: nested too deeply; restore the file, or generate it again") from None
