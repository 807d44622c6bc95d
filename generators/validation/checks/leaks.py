"""V4: nothing that the agent's user can read holds what was removed."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ....environments.sandbox import ENV_PREFIX, PYTHON_PREFIX
from ....environments.sandbox.layers.base_layer import hidden_below, shown_below_usr
from ....environments.snapshots import Snapshot
from ....environments.snapshots.store.cache import file_lock, temporary_folder
from ....environments.tasks.task_trees import Materials
from ....models import Task
from ....monitors.leaks import Index, Leak, Needles, fingerprint, needles, scan
from ...python.source_tree import SourceTree
from .removed import Exercise

WORKSPACE = "workspace"
_PROSE = (".rst", ".md", ".txt", ".toml", ".cfg", ".ini", ".yml", ".yaml")
_PROSE_NAMES = ("README", "CHANGE", "HISTORY", "NEWS", "AUTHORS", "CONTRIBUT", "RELEASE", "TODO", "LICEN", "COPYING")
MAX_PROSE = 1 << 20
_USR = Path("/usr")


@dataclass
class LeakCheck:
    """For all tasks of one Snapshot: its dependencies, interpreter and base are read once, into the cache.

    Machine code of the base layer is left out: no Python package is in it. Everything else that a sandbox shows is
    looked into.
    """

    snapshot: Snapshot
    _shared: list[Index] | None = field(default=None, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def find(self, task: Task, made: Materials, exercise: Exercise) -> list[Leak]:
        """Every leak of one task. Blocking: seconds the first time, then milliseconds per MiB of workspace."""
        wanted = task_needles(task, made.agent_tree, exercise, SourceTree.of(self.snapshot))
        with self._guard:
            if self._shared is None:
                self._shared = [_index(self.snapshot, name) for name in ("env", "python", "base")]
            leaks = [leak for index in self._shared for leak in index.find(wanted)]
            single = {needle.words[0] for needle in wanted.found if len(needle.words) == 1}
            common = {word for word in single if any(index.frequency(word) for index in self._shared)}
        return leaks + scan({WORKSPACE: made.agent_tree}, wanted.without(common))


def task_needles(task: Task, workspace: Path, exercise: Exercise, tree: SourceTree) -> Needles:
    """What would give this task away: what the solution holds and nothing that the agent is given says."""
    said = [task.problem_statement.encode(), *(f"{item.name} {item.signature}".encode() for item in task.interface)]
    prose: list[bytes] = []
    for folder, names, files in os.walk(workspace):
        names[:] = [name for name in names if name != ".git"]
        for name in files:
            full = Path(folder, name)
            path = full.relative_to(workspace).as_posix()
            if name.endswith(".py"):
                shown = tree.is_test(path) or tree.is_source(path)
                (said if shown else prose).append(_read(full))
                said.append(path.encode() if shown else b"")
            elif is_prose(name) and full.stat().st_size <= MAX_PROSE:
                prose.append(_read(full))
    stems = {Path(path).stem for path in exercise.after if path.endswith(".py")}
    return needles((piece.source for piece in exercise.pieces), said=said, prose=prose, stems=stems)


def is_prose(name: str) -> bool:
    """Whether a file of this name is a document, which may say a removed constant in passing."""
    return name.endswith(_PROSE) or ("." not in name and name.upper().startswith(_PROSE_NAMES))


def _read(path: Path) -> bytes:
    return b"" if path.is_symlink() else path.read_bytes()


def shared_roots(snapshot: Snapshot, name: str) -> tuple[dict[str, Path], list[str]]:
    """What a sandbox shows besides the workspace, and folders that it does not."""
    binds = snapshot.layers(snapshot.tree).binds
    if name == "env":
        return {ENV_PREFIX: binds[ENV_PREFIX]}, []
    if name == "python":
        return {PYTHON_PREFIX: binds[PYTHON_PREFIX]} if PYTHON_PREFIX in binds else {}, []
    return {f"/usr/{path}": _USR / path for path in shown_below_usr(_USR)}, [
        str(_USR / path) for path in hidden_below(_USR)
    ]


def _index(snapshot: Snapshot, name: str) -> Index:
    roots, skip = shared_roots(snapshot, name)
    key = f"{name}-{fingerprint(roots, *skip)[:32]}"
    return _shared_index(snapshot.cache, key, tuple(roots.items()), tuple(skip), name != "base")


@lru_cache(maxsize=32)
def _shared_index(
    cache: Path, key: str, roots: tuple[tuple[str, Path], ...], skip: tuple[str, ...], machine_code: bool
) -> Index:
    """The index in the cache, written whole by whoever comes first. Raises SnapshotError for a cache of others."""
    target = cache / "leaks" / f"{key}.sqlite"
    if not target.is_file():
        with file_lock(cache, f"leaks-{key}"), temporary_folder(cache) as staging:
            if not target.is_file():
                Index.build(staging / "index", dict(roots), skip=skip, machine_code=machine_code)
                target.parent.mkdir(exist_ok=True)
                os.replace(staging / "index", target)
    return Index(target)
