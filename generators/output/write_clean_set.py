"""A task set without the tasks that did not hold, written next to the old one."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...environments.snapshots import Snapshot
from ...environments.tasks.task_set import BLOBS, FILE_NAME, TaskSet
from ...environments.tasks.task_trees import materials
from ...errors import GeneratorError
from .card import card

if TYPE_CHECKING:
    from ..validation.audit import Problem


def refuse_occupied(out: Path | None, sample: int | None) -> None:
    """Raises GeneratorError, before hours of work, when ``out`` could not be written afterwards."""
    if out is None:
        return
    if sample is not None:
        raise GeneratorError("a cleaned set needs every task checked: leave --sample out")
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise GeneratorError(f"{out} holds something already: choose another --out")


def write_clean(
    folder: Path, out: Path, tasks: TaskSet, rows: Sequence[dict[str, Any]], problems: Sequence[Problem]
) -> int:
    """Write the tasks that no problem names, rows byte for byte, blobs, report and card; returns their number.

    The folder appears whole or not at all. Raises GeneratorError when the machine kept a task from being judged, when
    nothing is left, and when ``out`` cannot be written.
    """
    unjudged = next((problem for problem in problems if problem.infrastructure), None)
    if unjudged is not None:
        raise GeneratorError(f"{out} was not written, since not every task could be judged: {unjudged}")
    dropped: dict[str, list[dict[str, str]]] = {}
    for problem in problems:
        dropped.setdefault(problem.task_id, []).append({"check": problem.check, "cause": problem.cause})
    kept = [task for task in tasks if task.task_id not in dropped]
    if not kept:
        raise GeneratorError(f"{out} was not written: no task of {folder} holds")
    lines = [line for line in _lines(folder) if json.loads(line)["task_id"] not in dropped]
    reasons = {row["check"]: row["failed"] for row in rows if row["failed"]}
    numbers = {"candidates": len(tasks), "tasks": len(kept), "rejected": reasons, "yield": len(kept) / len(tasks)}
    report = {**numbers, "checks": list(rows), "dropped": dropped, "before": _earlier(folder)}
    snapshots: dict[str, Snapshot] = {}
    for task in kept:
        made = materials(task, blobs=tasks.blobs)
        snapshots.setdefault(made.snapshot.digest, made.snapshot)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as staging:
            new = Path(staging, "set")
            new.mkdir()
            (new / FILE_NAME).write_bytes(b"".join(line + b"\n" for line in lines))
            (new / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
            (new / "README.md").write_text(card(kept, numbers, list(snapshots.values())), "utf-8")
            for name in {sha256 for task in kept for sha256 in task.blobs.values()}:
                for blob in (folder / BLOBS).glob(f"{name}*"):
                    (new / BLOBS).mkdir(exist_ok=True)
                    shutil.copy2(blob, new / BLOBS / blob.name)
            new.rename(out)
    except OSError as error:
        raise GeneratorError(f"cannot write {out}: {error.strerror}; choose another --out") from error
    return len(kept)


def _lines(folder: Path) -> list[bytes]:
    file = folder / FILE_NAME if folder.is_dir() else folder
    return [line for line in file.read_bytes().split(b"\n") if line.strip()]


def _earlier(folder: Path) -> Any:
    """What the set said of itself, when it said something."""
    try:
        return json.loads((folder / "report.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
