"""The folder of a task set: ``tasks.jsonl``, ``report.json``, the card ``README.md``, and the journal of a run."""

from __future__ import annotations

import fcntl
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ...environments.snapshots.store.cache import check_writable, write_whole
from ...environments.tasks.task_set import FILE_NAME, write_tasks
from ...errors import GeneratorError
from ...models import Task
from ..base import Rejection
from .card import CardSource, card

JOURNAL = ".generate.jsonl"


@dataclass(frozen=True)
class Row:
    """The verdict on one candidate: a task, or why it was rejected."""

    source: str  # name and version of the package
    generator: str  # name of the generator
    entity: str  # what the candidate is about
    task: Task | None  # the task; None for a rejected candidate
    rejection: Rejection | None = None  # why the candidate was rejected
    cpu_seconds: float = 0.0  # CPU time that the verdict took


class Journal:
    """Verdicts of an unfinished run, one JSON line each; a line that a kill cut short is dropped.

    Nothing is written before the first verdict, so that a source which cannot be built leaves no trace. Whether
    ``folder`` can be written is checked at once. Raises GeneratorError if it cannot, or if another run writes there.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self._file: IO[str] | None = None
        self._rows: dict[str, Row] = {}
        try:
            check_writable(folder)
            if self.path.exists():
                file = self._open()
                file.seek(0)
                self._rows = dict(_read_rows(file.read()))
        except OSError as error:
            raise GeneratorError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error

    def _open(self) -> IO[str]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+", encoding="utf-8", errors="replace")
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends
        except (BlockingIOError, PermissionError):
            self._file.close()
            raise GeneratorError(
                f"another `etude generate` writes to {self.path.parent}; wait for it, or choose another --out"
            ) from None
        return self._file

    def get(self, key: str) -> Row | None:
        """Return the verdict of an earlier run."""
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        """Append a verdict. Raises GeneratorError when the file cannot be written."""
        item = {**asdict(row), "key": key, "task": row.task.model_dump(mode="json") if row.task else None}
        file = self._file or self._open()
        # A line that a kill cut short must not swallow the next one.
        try:
            file.write("\n" + json.dumps(item) + "\n")
            file.flush()
        except OSError as error:
            raise GeneratorError(
                f"cannot write to {self.path.parent}: {error.strerror}; fix that and run the same command again to "
                "resume"
            ) from error

    def remove(self) -> None:
        """Delete the file of a finished run."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            self._file.close()


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder, which becomes ``target`` when the block ends; after an error nothing remains of it.

    Raises OSError, also when ``target`` exists and is not empty.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as staging:
        folder = Path(staging, "new")
        folder.mkdir()
        yield folder
        folder.rename(target)


def _read_rows(text: str) -> Iterator[tuple[str, Row]]:
    for line in text.splitlines():
        try:
            item = json.loads(line)
            task = Task(**item["task"]) if item["task"] else None
            rejection = Rejection(**item["rejection"]) if item["rejection"] else None
            cpu = float(item["cpu_seconds"])
            yield item["key"], Row(item["source"], item["generator"], item["entity"], task, rejection, cpu)
        except (ValueError, KeyError, TypeError):  # cut short, or of another version: the verdict is measured again
            continue


def refuse_foreign(folder: Path, request: dict[str, Any]) -> None:
    """Raise GeneratorError when ``folder`` holds files that another request wrote."""
    report = folder / "report.json"
    if not report.is_file():
        foreign = [name for name in (FILE_NAME, "README.md") if (folder / name).exists()]
        if foreign and not (folder / JOURNAL).exists():
            raise GeneratorError(
                f"{folder} already holds a {foreign[0]} that no run of etude wrote; choose another --out"
            )
        return
    try:
        earlier = json.loads(report.read_text("utf-8")).get("request")
    except ValueError:
        earlier = None
    if earlier != request:
        raise GeneratorError(f"{folder} already holds a task set made from other arguments; choose another --out")


def publish(
    folder: Path, rows: list[Row], report: dict[str, Any], request: dict[str, Any], snapshots: Sequence[CardSource]
) -> None:
    """Write the set. Each file appears atomically: first the tasks, then the card, then the report."""
    refuse_foreign(folder, request)  # another run may have finished since the first check
    # The same source given twice gives the same tasks.
    tasks = list({row.task.task_id: row.task for row in rows if row.task is not None}.values())
    write_tasks(folder, tasks)
    rejects = [
        {"source": row.source, "generator": row.generator, "entity": row.entity, **asdict(row.rejection)}
        for row in rows
        if row.rejection is not None
    ]
    write_whole(folder / "README.md", card(tasks, report, snapshots).encode())
    text = json.dumps({**report, "request": request, "rejects": rejects}, indent=2) + "\n"
    write_whole(folder / "report.json", text.encode())
