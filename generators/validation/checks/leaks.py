"""V4: nothing that the agent can read holds what was removed."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ....environments.sandbox import ENV_PREFIX, PYTHON_PREFIX
from ....environments.sandbox.layers.base_layer import hidden_below, shown_below_usr
from ....environments.snapshots import Snapshot
from ....environments.snapshots.store.cache import file_lock, temporary_folder
from ....environments.tasks.task_paths import matches
from ....environments.tasks.task_trees import Materials
from ....models import RENAMED_FROM, Task
from ....monitors.leaks import Index, Leak, Needles, fingerprint, needles, scan
from ....monitors.leaks.text import read
from ...base import Example
from ...python.source_tree import SourceTree
from ...statements.examples import session_text
from .exercise import Exercise, Piece

WORKSPACE, STATEMENT = "workspace", "statement"
COMMON_WORD = 20
"""A word in at least this many documents of the shared layers says nothing about the package."""
MAX_PROSE = 1 << 20
_PROSE = (".rst", ".md", ".txt", ".toml", ".cfg", ".ini", ".yml", ".yaml", ".html", ".htm", ".adoc", ".tex", ".texi")
_MANUAL_PAGE = re.compile(r"[\w-]+\.[1-8]")
_TRANSLATIONS = (".pot", ".po", ".mo")
_PROSE_NAMES = ("README", "CHANGE", "HISTORY", "NEWS", "AUTHORS", "CONTRIBUT", "RELEASE", "TODO", "LICEN", "COPYING")
_USR = Path("/usr")
_COMPILED = (".so", ".pyd", ".dll", ".dylib")
_SHORTEST_COMPILED = 5
"""Fewest characters of a name that is looked for: short ones occur in any machine code."""


@dataclass
class LeakCheck:
    """The scanner for all tasks of one Snapshot: what these share is read once, into an index in the cache.

    Shared layers are the dependencies, the interpreter and the base. Machine code of the base is left out, since no
    Python package is in it; everything else that a sandbox shows is searched.
    """

    snapshot: Snapshot  # the Snapshot of the tasks
    _shared: list[Index] | None = field(default=None, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def find(self, task: Task, trees: Materials, exercise: Exercise) -> list[Leak]:
        """Return every leak of one task.

        Blocks: seconds for the first task of a Snapshot, then milliseconds per MiB of its workspace.
        """
        secrets = self._secrets(task, trees, exercise)
        with self._guard:
            shared = self._shared_layers()
            specific = without_common_code(secrets, shared)
            leaks = [leak for index in shared for leak in index.find(specific)]
        return leaks + scan({WORKSPACE: trees.agent_tree}, self._without_shared_words(secrets))

    def find_in_text(self, text: str, task: Task, trees: Materials, exercise: Exercise) -> list[Leak]:
        """Return what a text gives away that neither the task's statement nor its workspace shows. Blocks as above."""
        secrets = self._without_shared_words(self._secrets(task, trees, exercise))
        matches = sorted(secrets.within(read(text.encode())), key=lambda needle: (-len(needle.words), needle.words))
        return [Leak(STATEMENT, "text", needle.kind, needle.text) for needle in matches]

    def harmless(self, task: Task, examples: Sequence[Example]) -> list[Example]:
        """Return the examples that show neither a name nor a line of the solution; ``task`` does not show them yet.

        Constants may be shown: they are what tests expect. Blocks like ``find``.
        """
        trees = Materials(task, self.snapshot)
        secrets = self._secrets(task, trees, Exercise.of(task, trees))
        texts = [read(session_text(example).encode()) for example in examples]
        shown = {needle for text in texts for needle in secrets.within(text) if needle.kind != "constant"}
        if not shown:
            return list(examples)
        suspects = self._without_shared_words(Needles(tuple(needle for needle in secrets.items if needle in shown)))
        with self._guard:
            specific = without_common_code(suspects, self._shared_layers())
        return [
            example for example, text in zip(examples, texts, strict=True) if next(specific.within(text), None) is None
        ]

    def _secrets(self, task: Task, trees: Materials, exercise: Exercise) -> Needles:
        renamed_sources = task.source_globs if RENAMED_FROM in task.features else []
        return task_needles(task, trees.agent_tree, exercise, SourceTree.of(self.snapshot), renamed_sources)

    def _shared_layers(self) -> list[Index]:
        """Return the indexes of the shared layers; the caller holds the guard."""
        if self._shared is None:
            self._shared = [_index(self.snapshot, name) for name in ("env", "python", "base")]
        return self._shared

    def _without_shared_words(self, secrets: Needles) -> Needles:
        """Return the needles without single words that a shared layer has too."""
        single = {needle.words[0] for needle in secrets.items if len(needle.words) == 1}
        with self._guard:
            shared = self._shared_layers()
            return secrets.without({word for word in single if any(index.frequency(word) for index in shared)})


def without_common_code(secrets: Needles, shared: Sequence[Index]) -> Needles:
    """Return the needles without runs of code whose words are all common in the shared layers.

    A line such as ``for key, value in self.items()`` occurs in a shared layer whether or not the package was copied.
    """

    def is_common(word: bytes) -> bool:
        return sum(index.frequency(word) for index in shared) >= COMMON_WORD

    specific = tuple(
        needle for needle in secrets.items if needle.kind != "code" or not all(map(is_common, set(needle.words)))
    )
    return Needles(specific, secrets.stems)


def task_needles(
    task: Task, workspace: Path, exercise: Exercise, tree: SourceTree, renamed_sources: Sequence[str] = ()
) -> Needles:
    """Return the names and lines of the solution that neither the statement nor a file shown to the agent contains.

    ``renamed_sources`` are patterns of sources that the Snapshot has under other paths.
    """
    legitimate = [
        task.problem_statement.encode(),
        *(f"{item.name} {item.signature}".encode() for item in task.interface),
    ]
    prose: list[bytes] = []
    for folder, names, files in os.walk(workspace):
        names[:] = [name for name in names if name != ".git"]
        for name in files:
            full = Path(folder, name)
            path = full.relative_to(workspace).as_posix()
            if name.endswith(".py"):
                shown = tree.is_test(path) or tree.is_source(path) or matches(path, renamed_sources)
                (legitimate if shown else prose).append(_read(full))
                legitimate.append(path.encode() if shown else b"")
            elif is_prose(name) and full.stat().st_size <= MAX_PROSE:
                prose.append(_read(full))
    stems = {Path(path).stem for path in exercise.after if path.endswith(".py")}
    return needles((piece.source for piece in exercise.secret_pieces), visible=legitimate, prose=prose, stems=stems)


def is_prose(name: str) -> bool:
    """Return whether a file of this name is a document or a table of messages, which may quote a removed text."""
    is_document = "." not in name and name.upper().startswith(_PROSE_NAMES)
    return is_document or name.endswith((*_PROSE, *_TRANSLATIONS)) or _MANUAL_PAGE.fullmatch(name) is not None


def _read(path: Path) -> bytes:
    return b"" if path.is_symlink() else path.read_bytes()


def compiled_copy(tree: Path, pieces: Iterable[Piece]) -> str:
    """Return which compiled module of a tree defines one of the pieces, '' for none: importing it would be a solution.

    A module counts when it holds a piece's name as a whole text; a private name counts without its underscores too.
    Raises OSError for a file that cannot be read.
    """
    names = {piece.short for piece in pieces if not piece.short.startswith("__")}
    names = {name for name in {*names, *(name.strip("_") for name in names)} if len(name) >= _SHORTEST_COMPILED}
    if not names:
        return ""
    pattern = re.compile(
        b"(?<![A-Za-z0-9_])_*(" + b"|".join(re.escape(name.encode()) for name in sorted(names)) + b")\\0"
    )
    for folder, _, files in os.walk(tree):
        for name in sorted(files):
            path = Path(folder, name)
            if name.endswith(_COMPILED) and not path.is_symlink() and (match := pattern.search(path.read_bytes())):
                return f"{path.relative_to(tree)} holds a compiled {match[1].decode()}"
    return ""


def shared_roots(snapshot: Snapshot, name: str) -> tuple[dict[str, Path], list[str]]:
    """Return the folders of a shared layer (``env``, ``python`` or ``base``) and those below that no sandbox shows."""
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
    """Return the index in the cache; the first process that needs it builds it. Raises SnapshotError."""
    target = cache / "leaks" / f"{key}.sqlite"
    if not target.is_file():
        with file_lock(cache, f"leaks-{key}"), temporary_folder(cache) as staging:
            if not target.is_file():
                Index.build(staging / "index", dict(roots), skip=skip, machine_code=machine_code)
                target.parent.mkdir(exist_ok=True)
                os.replace(staging / "index", target)
    return Index(target)
