"""A task set as a repository: its files as they are, a Parquet table for each split, and a card."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....environments.hub.manifest import CARD
from ....environments.tasks.task_set import BLOBS, FILE_NAME, TaskSet
from ....environments.tasks.task_trees import packed_snapshot
from ....errors import HubError
from ....models import Task
from ..card import card
from .parquet import front_matter, parquet, split_paths
from .repo_tree import RepoTree
from .tasks_card import hub_section

_REPORT = "report.json"
_OPEN, _CLOSE = "<!-- etude push -->", "<!-- end of etude push -->"
_SECTION = re.compile(rf"\n*{_OPEN}.*?{_CLOSE}\n*", re.DOTALL)


def tasks_repo(folder: Path, repo_id: str) -> RepoTree:
    """Return the repository of a task set's folder. Raises TaskSetError and HubError.

    ``tasks.jsonl``, ``report.json`` and the archives keep their bytes; the tables in ``data/`` are made from the rows.
    """
    tasks = TaskSet.load(folder)
    splits = tasks.list_splits()
    paths, features = split_paths(splits), task_features()
    files: dict[str, Path | bytes] = {FILE_NAME: folder / FILE_NAME}
    if (folder / _REPORT).is_file():
        files[_REPORT] = folder / _REPORT
    archives = _archives(tasks, folder)
    files |= {f"{BLOBS}/{file.name}": file for file in archives}
    for split in splits:
        rows = [task.model_dump(mode="json") for task in tasks if task.split == split]
        files[paths[split]] = parquet(rows, features)
    report = _report(folder)
    text = _old_card(folder / CARD) or card(list(tasks), report, [])
    counts = Counter(task.split for task in tasks)
    section = hub_section(list(tasks), report, repo_id, archives=len(archives))
    matter = front_matter(_fields(text), {"default": (paths, features)})
    page = f"{matter}\n{_body(text)}\n\n{_OPEN}\n{section}\n{_CLOSE}\n"
    numbers = {"tasks": len(tasks), "splits": dict(counts), "archives": len(archives)}
    return RepoTree("tasks", files, page, numbers)


def task_features() -> Any:
    """Return the ``datasets.Features`` of a row. Tables with free keys are JSON columns."""
    from datasets import Features, Json, List, Value

    text, texts = Value("string"), List(Value("string"))
    typed: dict[str, Any] = {
        "schema_version": Value("int32"),
        "snapshot": {"digest": text, "recipe": Json()},
        "generator": {"name": text, "version": text, "seed": Value("int64"), "knobs": Json()},
        "interface": List({"name": text, "kind": text, "signature": text}),
        "FAIL_TO_PASS": texts,
        "PASS_TO_PASS": texts,
        "source_globs": texts,
        "protected_paths": texts,
        "verifier_strength": Value("float64"),
    }
    default = {name: text if field.annotation is str else Json() for name, field in Task.model_fields.items()}
    return Features({**default, "assurance": text, **typed})


def _archives(tasks: TaskSet, folder: Path) -> list[Path]:
    """Return the archives that rows name, sorted. Raises HubError when one is missing."""
    archives = {packed[0] for task in tasks if (packed := packed_snapshot(task, folder / BLOBS))}
    for file in sorted(archives):
        if not file.is_file():
            raise HubError(f"{file} is missing, and rows need it; run etude snapshot pack {folder}")
    return sorted(archives)


def _report(folder: Path) -> dict[str, Any]:
    """Return the report of the set, empty when it has none. Raises HubError when it cannot be read."""
    file = folder / _REPORT
    try:
        report = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise HubError(f"{file} is not JSON ({error}); restore it, or remove it") from None
    return report if isinstance(report, dict) else {}


def _old_card(file: Path) -> str:
    """Return the folder's own card without what an earlier push added; '' when there is none."""
    return _SECTION.sub("\n", file.read_text("utf-8")) if file.is_file() else ""


def _fields(text: str) -> Mapping[str, Any]:
    """Return the front matter of a card, without the parts that describe files."""
    from huggingface_hub import DatasetCard

    fields = dict(DatasetCard(text, ignore_metadata_errors=True).data.to_dict())
    return {name: value for name, value in fields.items() if name not in ("configs", "dataset_info")}


def _body(text: str) -> str:
    """Return a card without its front matter."""
    return re.sub(r"\A\s*---\r?\n.*?\n---\r?\n", "", text, count=1, flags=re.DOTALL).strip()
