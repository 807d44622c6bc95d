"""The paths of a workspace that an agent can list: no secret, and so what a hint may name."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from ..grading import matches

MOST = 1000
_UNLISTED = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})


@lru_cache(maxsize=512)
def listed(tree: Path, source_globs: tuple[str, ...]) -> tuple[str, ...]:
    """What ``list_files`` shows of a pristine workspace; of more than MOST files those that match ``source_globs``."""
    found: list[str] = []
    for folder, names, files in os.walk(tree):
        names[:] = [name for name in names if name not in _UNLISTED]
        found += [(Path(folder) / name).relative_to(tree).as_posix() for name in files]
    if len(found) > MOST:
        found = sorted(found, key=lambda path: (not matches(path, source_globs), path))[:MOST]
    return tuple(sorted(found))
