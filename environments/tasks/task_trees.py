"""The two trees of a task, read-only in the cache: what the agent sees, and what its changes are graded on."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import GraderError, PatchError
from ...models import Task
from ..sandbox import ENV_PREFIX, Layers
from ..snapshots import Snapshot, make_workspace, open_snapshot
from ..snapshots.store.cache import cache_folder
from ..snapshots.store.pack import SUFFIX
from .task_paths import visible_files

SHARED_MATERIALS = 512
"""How many tasks' materials a process shares."""
SNAPSHOT_BLOB = "snapshot"
"""Name of the Snapshot's archive in the ``blobs`` of a row."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Materials:
    """A task's Snapshot and trees; making them is slow the first time (seconds to minutes), then a look-up."""

    task: Task
    snapshot: Snapshot

    @cached_property
    def agent_tree(self) -> Path:
        """Return the workspace: the pristine tree without the solution, as a new git repository of one commit."""
        return make_workspace(self.snapshot, self.task.workspace_patch, git=True).path

    @property
    def pristine_tree(self) -> Path:
        """Return the files of the workspace, for comparisons; no repository is made where none is needed."""
        return self.agent_tree if self.task.workspace_patch else self.snapshot.tree

    @cached_property
    def grading_tree(self) -> Path:
        """Return the workspace with the hidden tests added and without a repository."""
        return make_workspace(self.snapshot, self.task.workspace_patch, self.task.test_patch, git=False).path

    @cached_property
    def solved_tree(self) -> Path:
        """Return the grading tree with the task's own solution, for trusted runs that no code of an agent enters."""
        task = self.task
        return make_workspace(self.snapshot, task.workspace_patch, task.test_patch, task.patch, git=False).path

    @cached_property
    def installed(self) -> frozenset[str]:
        """Return the top-level module names of the packages installed in the Snapshot."""
        layers = self.snapshot.layers(self.pristine_tree)
        binds = {**layers.unmapped, **layers.binds}
        folders = binds[ENV_PREFIX].glob("lib/python3.*/site-packages") if ENV_PREFIX in binds else ()
        names = (entry.name for folder in folders for entry in folder.iterdir())
        return frozenset(name.partition(".")[0] for name in names if not name.endswith((".dist-info", ".pth")))

    @cached_property
    def visible_files(self) -> tuple[str, ...]:
        """Return the paths that the agent can list at the start."""
        return visible_files(self.agent_tree, tuple(self.task.source_globs))

    @cached_property
    def agent_layers(self) -> Layers:
        """Return what the agent's sandbox shows."""
        return self.snapshot.layers(self.agent_tree)

    @cached_property
    def grading_layers(self) -> Layers:
        """Return what the grader's sandbox shows."""
        return self.snapshot.layers(self.grading_tree)


_lock = threading.Lock()
_snapshots: dict[str, tuple[threading.Lock, list[Snapshot]]] = {}
_materials: OrderedDict[str, Materials] = OrderedDict()


def materials(task: Task, blobs: Path | None = None) -> Materials:
    """Return the task's materials, shared within the process; blocking, so call it in a thread from a coroutine.

    ``blobs`` is the folder of the set's archives: a Snapshot that the cache lacks is unpacked from there. Raises
    SnapshotError when the Snapshot can neither be found, unpacked nor rebuilt, ValueError for a task without one.
    """
    if task.snapshot is None:
        raise ValueError(f"task {task.task_id!r} names no snapshot; play it in an environment that needs none")
    key = task.model_dump_json(include={"snapshot", "workspace_patch", "test_patch", "patch"})
    with _lock:
        if key in _materials:
            _materials.move_to_end(key)
            return _materials[key]
        guard, opened = _snapshots.setdefault(task.snapshot.digest, (threading.Lock(), []))
    with guard:
        if not opened:
            opened.append(open_snapshot(task.snapshot, packed=packed_snapshot(task, blobs)))
    with _lock:
        shared = _materials.setdefault(key, Materials(task, opened[0]))
        while len(_materials) > SHARED_MATERIALS:
            _materials.popitem(last=False)
    return shared


def packed_snapshot(task: Task, blobs: Path | None) -> tuple[Path, str] | None:
    """Return the archive of the task's Snapshot and its sha256, None when the row has none. Raises ValueError."""
    sha256 = task.blobs.get(SNAPSHOT_BLOB)
    if sha256 is None or blobs is None:
        return None
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(
            f"task {task.task_id!r} records a blob {sha256[:80]!r}, which is not a sha256; pack the set again"
        )
    return blobs / f"{sha256}{SUFFIX}", sha256


def unplayable(task: Task, error: Exception) -> GraderError:
    """Return the error of a task whose trees cannot be made. What a patch says is secret, so it is left out."""
    if _is_disk_full(error):
        cause = f"no space left on {cache_folder()}; free some, or set ETUDE_CACHE to a folder on another disk"
    elif isinstance(error, PatchError):
        cause = "its patches do not fit its snapshot; make the task again"
    else:
        cause = str(error)
    return GraderError(f"task {task.task_id!r} cannot be played or graded: {cause}")


def _is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is a full disk; of git's errors only the text is known."""
    if error is None:
        return False
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return True
    return any(os.strerror(code) in str(error) for code in _DISK_FULL) or _is_disk_full(error.__cause__)
