"""The two trees of a task: what the agent sees, and what its diff is graded on. Both lie in the cache, read-only."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...models import Task
from ..sandbox import ENV_PREFIX, Layers
from ..snapshots import Snapshot, make_workspace, open_snapshot
from ..snapshots.store.pack import SUFFIX

KEPT = 512
SNAPSHOT_BLOB = "snapshot"  # its name in a row's ``blobs``


@dataclass(frozen=True)
class Materials:
    """A task's Snapshot and trees; making them is slow the first time (seconds to minutes), then a look-up."""

    task: Task
    snapshot: Snapshot

    @cached_property
    def agent_tree(self) -> Path:
        """The workspace: the pristine tree with the exercise cut out, as a fresh one-commit git repository."""
        return make_workspace(self.snapshot, self.task.workspace_patch, git=True).path

    @cached_property
    def grading_tree(self) -> Path:
        """The same with the hidden tests added and no repository."""
        return make_workspace(self.snapshot, self.task.workspace_patch, self.task.test_patch, git=False).path

    @cached_property
    def installed(self) -> frozenset[str]:
        """Top-level module names of the environment's packages."""
        binds = {**self.agent_layers.unmapped, **self.agent_layers.binds}
        folders = binds[ENV_PREFIX].glob("lib/python3.*/site-packages") if ENV_PREFIX in binds else ()
        names = (entry.name for folder in folders for entry in folder.iterdir())
        return frozenset(name.partition(".")[0] for name in names if not name.endswith((".dist-info", ".pth")))

    @cached_property
    def agent_layers(self) -> Layers:
        return self.snapshot.layers(self.agent_tree)

    @cached_property
    def grading_layers(self) -> Layers:
        return self.snapshot.layers(self.grading_tree)


_lock = threading.Lock()
_snapshots: dict[str, tuple[threading.Lock, list[Snapshot]]] = {}
_materials: OrderedDict[str, Materials] = OrderedDict()


def materials(task: Task, opener: Callable[..., Snapshot] = open_snapshot, blobs: Path | None = None) -> Materials:
    """The task's materials, shared within the process; blocking, so call it in a thread from a coroutine.

    ``blobs`` is the folder of the set's archives: a Snapshot that the cache lacks is unpacked from there. Raises
    SnapshotError when the Snapshot can neither be found, unpacked nor rebuilt, ValueError for a task without one.
    """
    if task.snapshot is None:
        raise ValueError(f"task {task.task_id!r} names no snapshot: it cannot be played here")
    key = task.model_dump_json(include={"snapshot", "workspace_patch", "test_patch"})
    with _lock:
        if key in _materials:
            _materials.move_to_end(key)
            return _materials[key]
        guard, opened = _snapshots.setdefault(task.snapshot.digest, (threading.Lock(), []))
    with guard:
        if not opened:
            packed = packed_snapshot(task, blobs)
            opened.append(opener(task.snapshot, packed=packed) if packed else opener(task.snapshot))
    made = Materials(task, opened[0])
    with _lock:
        made = _materials.setdefault(key, made)
        while len(_materials) > KEPT:
            _materials.popitem(last=False)
    return made


def packed_snapshot(task: Task, blobs: Path | None) -> tuple[Path, str] | None:
    """The archive of the task's Snapshot and its sha256, when the row records one. Raises ValueError for a bad name."""
    sha256 = task.blobs.get(SNAPSHOT_BLOB)
    if sha256 is None or blobs is None:
        return None
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(
            f"task {task.task_id!r} records a blob {sha256[:80]!r}, which is no sha256: pack the set again"
        )
    return blobs / f"{sha256}{SUFFIX}", sha256
