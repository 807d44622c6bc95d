"""The files of the pristine workspace that monitors compare an agent's changes with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ...models import FileChange
from ..sandbox import MIB, Change
from ..tasks.task_paths import matches

MAX_FILE = 1 * MIB
MAX_BASE = 8 * MIB
"""Bytes of all pristine files of a diff together."""
MAX_TESTS = 4 * MIB
"""Bytes of all visible tests together."""
MAX_REFUSED = 256 << 10
"""Bytes of a refused file that monitors look at."""
MAX_REFUSED_FILES = 200


@dataclass(frozen=True)
class Pristine:
    """Files as the agent received them, by path."""

    base: Mapping[str, bytes] = field(default_factory=dict)
    """The files that the agent changed or deleted."""
    tests: Mapping[str, bytes] = field(default_factory=dict)
    """The visible tests."""


def read_pristine(tree: Path, changes: Sequence[Change], protected: Sequence[str]) -> Pristine:
    """Return the pristine files of some changes and the tests that match ``protected``.

    ``tree`` is the pristine workspace, which holds no hidden test. Files over the limits are left out. Blocks.
    """
    base: dict[str, bytes] = {}
    total = 0
    for change in changes:
        content = _read(tree, change.path)
        if content is not None and total + len(content) <= MAX_BASE:
            base[change.path] = content
            total += len(content)
    return Pristine(base, _tests(tree, tuple(protected)))


def _read(tree: Path, path: str) -> bytes | None:
    """Return a regular file of the tree, None for another path; the names come from the agent."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or {"", ".", ".."} & set(parts):
        return None
    try:
        full = tree
        for part in parts:
            full = full / part
            if full.is_symlink():
                return None
        return full.read_bytes() if full.is_file() and full.stat().st_size <= MAX_FILE else None
    except (OSError, ValueError):  # a name that is too long, or that cannot be encoded
        return None


@lru_cache(maxsize=8)
def _tests(tree: Path, protected: tuple[str, ...]) -> dict[str, bytes]:
    """Return the Python tests of a tree, which is read-only in the cache and shared by many grades."""
    contents: dict[str, bytes] = {}
    total = 0
    for folder, names, files in os.walk(tree):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            relative = path.relative_to(tree).as_posix()
            if not name.endswith(".py") or path.is_symlink() or not matches(relative, protected):
                continue
            content = _read(tree, relative)
            if content is not None and total + len(content) <= MAX_TESTS:
                contents[relative] = content
                total += len(content)
    return contents


def refused_content(changes: Iterable[Change], refused: Iterable[FileChange]) -> dict[str, bytes]:
    """Return what the agent wrote into files that are not graded, by path; for links, their targets.

    Files of git's data are refused as one entry, ``.git``: hooks and settings are returned under their own paths.
    """
    names = {change.path for change in refused}
    contents: dict[str, bytes] = {}
    for change in changes:
        # Undecodable names carry lone surrogates, which no record can hold.
        in_git = ".git" in names and change.path.isprintable() and _is_setting(change.path)
        if (change.path in names or in_git) and change.content is not None and len(change.content) <= MAX_REFUSED:
            contents[change.path] = change.content
            if len(contents) >= MAX_REFUSED_FILES:
                break
    return contents


def _is_setting(path: str) -> bool:
    """Return whether a path below ``.git`` holds settings, attributes or a hook."""
    parts = path.split("/")
    if ".git" not in parts:
        return False
    return "hooks" in parts or parts[-1] in ("config", "config.worktree", "attributes")
