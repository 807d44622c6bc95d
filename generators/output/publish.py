"""The folder that a task set is: ``tasks.jsonl``, ``report.json``, ``README.md`` (its card), all or nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...environments.snapshots import Snapshot
from ...environments.snapshots.store.cache import write_whole
from ...environments.tasks.task_set import FILE_NAME, write_tasks
from ...errors import GeneratorError
from ...models import Task
from .card import card

JOURNAL = ".generate.jsonl"


@dataclass(frozen=True)
class Row:
    """The verdict on one candidate: a task, or why not."""

    source: str
    entity: str
    task: Task | None
    reason: str = ""
    detail: str = ""


class Journal:
    """Verdicts of a run under way, one JSON line each; a line cut short by a kill is dropped.

    Nothing is written before the first verdict, so that a source that cannot be built leaves no trace; whether
    ``folder`` can be written is asked at once. Raises GeneratorError when it cannot, or when another run writes there.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self._file: IO[str] | None = None
        self._rows: dict[str, Row] = {}
        try:
            _check_writable(folder)
            if self.path.exists():
                file = self._open()
                file.seek(0)
                self._rows = dict(_verdicts(file.read()))
        except OSError as error:
            raise GeneratorError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error

    def _open(self) -> IO[str]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+", encoding="utf-8", errors="replace")
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process, as long as it lives
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise GeneratorError(
                f"another `etude generate` writes to {self.path.parent}: wait for it, or choose another --out"
            ) from None
        return self._file

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        item = {**row.__dict__, "key": key, "task": row.task.model_dump(mode="json") if row.task else None}
        file = self._file or self._open()
        # A line that a kill cut short must not swallow the next one.
        try:
            file.write("\n" + json.dumps(item) + "\n")
            file.flush()
        except OSError as error:
            raise GeneratorError(
                f"cannot write to {self.path.parent}: {error.strerror}; put that right and run the same command again "
                f"to go on"
            ) from error

    def remove(self) -> None:
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()


def _check_writable(folder: Path) -> None:
    """Raises OSError when ``folder`` is not, or could not be made, a folder to write into."""
    there = folder.absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    # By trying: root may write by permission where the filesystem then refuses.
    with tempfile.TemporaryFile(dir=there):
        pass


def _verdicts(text: str) -> Iterator[tuple[str, Row]]:
    for line in text.splitlines():
        try:
            item = json.loads(line)
            task = Task(**item["task"]) if item["task"] else None
            yield item["key"], Row(item["source"], item["entity"], task, item["reason"], item["detail"])
        except (ValueError, KeyError, TypeError):  # cut short, or of another version: it is made again
            continue


def refuse_foreign(folder: Path, request: dict[str, Any]) -> None:
    """Files that are not this request's are never overwritten. Raises GeneratorError."""
    report = folder / "report.json"
    if not report.is_file():
        strange = [name for name in (FILE_NAME, "README.md") if (folder / name).exists()]
        if strange and not (folder / JOURNAL).exists():
            raise GeneratorError(f"{folder} already holds a {strange[0]} of its own; choose another --out")
        return
    try:
        earlier = json.loads(report.read_text("utf-8")).get("request")
    except ValueError:
        earlier = None
    if earlier != request:
        raise GeneratorError(f"{folder} already holds a task set made from other arguments; choose another --out")


def publish(
    folder: Path, rows: list[Row], report: dict[str, Any], request: dict[str, Any], snapshots: list[Snapshot]
) -> None:
    """Write the set. Each file appears whole or not at all, ``tasks.jsonl`` last but for the report."""
    refuse_foreign(folder, request)  # another run may have ended meanwhile
    # The same source given twice makes the same tasks.
    tasks = list({row.task.task_id: row.task for row in rows if row.task is not None}.values())
    write_tasks(folder, tasks)
    rejects = [{"entity": row.entity, "reason": row.reason, "detail": row.detail} for row in rows if row.task is None]
    write_whole(folder / "README.md", card(tasks, report, snapshots).encode())
    text = json.dumps({**report, "request": request, "rejects": rejects}, indent=2) + "\n"
    write_whole(folder / "report.json", text.encode())
