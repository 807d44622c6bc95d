"""A task set without the tasks that failed an audit, written next to the old one."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...environments.snapshots import Snapshot
from ...environments.tasks.task_set import BLOBS, FILE_NAME, TaskSet
from ...environments.tasks.task_trees import materials
from ...errors import GeneratorError
from ..validation.audit_report import ValidationReport
from .card import card
from .publish import new_folder


def refuse_unusable(out: Path | None, sample: int | None) -> None:
    """Raise GeneratorError, before hours of work, when ``out`` could not be written afterwards."""
    if out is None:
        return
    if sample is not None:
        raise GeneratorError("a cleaned set needs every task checked; leave --sample out")
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise GeneratorError(f"{out} is not empty; choose another --out")
    existing = next(folder for folder in out.absolute().parents if folder.exists())
    try:
        with tempfile.TemporaryDirectory(dir=existing):
            pass
    except OSError as error:
        raise GeneratorError(f"cannot write {out}: {error.strerror}; choose another --out") from error


def write_clean(folder: Path, out: Path, tasks: TaskSet, report: ValidationReport) -> int:
    """Write the tasks without a problem: rows byte for byte, blobs, report and card. Return their number.

    The folder appears atomically. Raises GeneratorError when the machine kept a task from being judged, when no task
    remains, and when ``out`` cannot be written.
    """
    unjudged = next((problem for problem in report.problems if problem.infrastructure), None)
    if unjudged is not None:
        raise GeneratorError(f"{out} was not written because a task could not be judged; run it again: {unjudged}")
    dropped: dict[str, list[dict[str, str]]] = {}
    for problem in report.problems:
        dropped.setdefault(problem.task_id, []).append({"check": problem.check, "cause": problem.cause})
    remaining = [task for task in tasks if task.task_id not in dropped]
    if not remaining:
        raise GeneratorError(f"{out} was not written because every task of {folder} has a problem; generate new tasks")
    reasons = {row.check: row.failed for row in report.rows if row.failed}
    numbers = {"candidates": len(tasks), "tasks": len(remaining), "rejected": reasons}
    numbers["yield"] = len(remaining) / len(tasks)
    details = {"checks": [asdict(row) for row in report.rows], "dropped": dropped, "before": _earlier_report(folder)}
    snapshots: dict[str, Snapshot] = {}
    for task in remaining:
        trees = materials(task, blobs=tasks.blobs)
        snapshots.setdefault(trees.snapshot.digest, trees.snapshot)
    lines = [line for line in _lines(folder) if json.loads(line)["task_id"] not in dropped]
    try:
        with new_folder(out) as new:
            (new / FILE_NAME).write_bytes(b"".join(line + b"\n" for line in lines))
            (new / "report.json").write_text(json.dumps({**numbers, **details}, indent=2) + "\n", "utf-8")
            (new / "README.md").write_text(card(remaining, numbers, list(snapshots.values())), "utf-8")
            for name in {sha256 for task in remaining for sha256 in task.blobs.values()}:
                for blob in (folder / BLOBS).glob(f"{name}*"):
                    (new / BLOBS).mkdir(exist_ok=True)
                    shutil.copy2(blob, new / BLOBS / blob.name)
    except OSError as error:
        raise GeneratorError(f"cannot write {out}: {error.strerror}; choose another --out") from error
    return len(remaining)


def _lines(folder: Path) -> list[bytes]:
    file = folder / FILE_NAME if folder.is_dir() else folder
    return [line for line in file.read_bytes().split(b"\n") if line.strip()]


def _earlier_report(folder: Path) -> Any:
    """Return the report of the set, or None when it has none that can be read."""
    try:
        return json.loads((folder / "report.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
