"""The folder that a task set is: ``tasks.jsonl``, ``report.json``, ``README.md`` (its card), all or nothing."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..environments.snapshots import Snapshot
from ..environments.tasks import write_tasks
from ..models import Task
from . import GeneratorError

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
    """Verdicts of a run under way, one JSON line each; a line cut short by a kill is dropped."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path = folder / JOURNAL
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise GeneratorError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
        self._rows: dict[str, Row] = {}
        for line in self.path.read_text("utf-8").splitlines():
            try:
                item = json.loads(line)
            except ValueError:
                continue
            task = Task(**item["task"]) if item["task"] else None
            self._rows[item["key"]] = Row(item["source"], item["entity"], task, item["reason"], item["detail"])

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def add(self, key: str, row: Row) -> None:
        item = {**row.__dict__, "key": key, "task": row.task.model_dump(mode="json") if row.task else None}
        # A line that a kill cut short must not swallow the next one.
        self._file.write("\n" + json.dumps(item) + "\n")
        self._file.flush()

    def remove(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def refuse_foreign(folder: Path, request: dict[str, Any]) -> None:
    """A finished set made from other arguments is never overwritten. Raises GeneratorError."""
    report = folder / "report.json"
    if not report.is_file():
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
    tasks = [row.task for row in rows if row.task is not None]
    write_tasks(folder, tasks)
    rejects = [{"entity": row.entity, "reason": row.reason, "detail": row.detail} for row in rows if row.task is None]
    _write(folder / "README.md", card(tasks, report, snapshots))
    _write(folder / "report.json", json.dumps({**report, "request": request, "rejects": rejects}, indent=2) + "\n")


def card(tasks: list[Task], report: dict[str, Any], snapshots: list[Snapshot]) -> str:
    """A dataset card with the Hub's front matter."""
    licences = sorted({task.licence or "unknown" for task in tasks})
    kinds = Counter(task.generator.name for task in tasks)
    lines = [
        "---",
        "tags: [code, reinforcement-learning, openenv, etude]",
        f"license: {licences[0].lower() if len(licences) == 1 else 'other'}",
        "configs: [{config_name: default, data_files: tasks.jsonl}]",
        "---",
        "",
        f"# {len(tasks)} coding tasks from {', '.join(f'{item.name} {item.version}' for item in snapshots)}",
        "",
        "Made by Etude: each row is a superset of a SWE-bench row. The oracle scores 1 twice, in two",
        "orders, in fresh sandboxes; doing nothing and trivial bodies score 0.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {number} tasks |" for name, number in sorted(kinds.items())),
        f"| candidates | {report['candidates']} |",
        f"| yield | {report['yield']:.0%} |",
        *(f"| rejected: {reason} | {number} |" for reason, number in sorted(report["rejected"].items())),
        f"| licences | {', '.join(licences)} |",
        "",
        "Patches, hidden tests and seeds are in the rows: keep them away from the policy that trains on the set.",
    ]
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, 0o644)
    os.replace(name, path)
