"""Paths of a task: glob patterns, the files that its agent can list, the files that its solution and tests are in."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ...models import Task

MOST_VISIBLE = 1000
"""How many visible files an episode records at most."""
_UNLISTED = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_MODULE = (".py", "/__init__.py")
_GLOBS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def glob_regex(pattern: str) -> str:
    """Return the regular expression of a glob for a whole path; ``**`` crosses folders, ``*`` and ``?`` do not."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return "".join(_GLOBS.get(part, re.escape(part)) for part in parts)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(glob_regex(pattern), re.DOTALL)


def matches(path: str, globs: Sequence[str]) -> bool:
    """Return whether a ``/``-separated path matches one of the globs as a whole (see ``glob_regex``).

    A pattern without wildcards also covers everything below it.
    """
    return any(
        _compiled(pattern).fullmatch(path)
        or (not re.search(r"[*?]", pattern) and path.startswith(pattern.rstrip("/") + "/"))
        for pattern in globs
    )


@lru_cache(maxsize=512)
def visible_files(tree: Path, source_globs: tuple[str, ...]) -> tuple[str, ...]:
    """Return what ``list_files`` shows of a pristine workspace, at most MOST_VISIBLE files, sources first.

    No visible path is secret, so hints may name them.
    """
    paths: list[str] = []
    for folder, names, files in os.walk(tree):
        names[:] = [name for name in names if name not in _UNLISTED]
        paths += [(Path(folder) / name).relative_to(tree).as_posix() for name in files]
    if len(paths) > MOST_VISIBLE:
        paths = sorted(paths, key=lambda path: (not matches(path, source_globs), path))[:MOST_VISIBLE]
    return tuple(sorted(paths))


def plugin_files(tree: Path) -> list[str]:
    """Return the files of the tree that its conftests name as pytest plugins: they decide about tests, as tests do."""
    names: set[str] = set()
    for path in sorted(tree.rglob("conftest.py")):
        text = path.read_text("utf-8", "replace")
        for value in re.findall(r"^pytest_plugins\s*=\s*(\[[^\]]*\]|\([^)]*\)|[\"'][^\"']+[\"'])", text, re.MULTILINE):
            names.update(re.findall(r"[\"']([\w.]+)[\"']", value))
    places = (f"{prefix}{name.replace('.', '/')}{end}" for name in names for prefix in ("", "src/") for end in _MODULE)
    return sorted(place for place in places if (tree / place).is_file())


def source_files(task: Task) -> list[str]:
    """Return the files that the solution touches: candidate code there is sure to be imported."""
    return list(dict.fromkeys(re.findall(r"^\+\+\+ b/(.+?)\t?$", task.patch, flags=re.MULTILINE)))


def solution_paths(task: Task) -> list[str]:
    """Return the files that the solution writes or deletes."""
    return list(dict.fromkeys(re.findall(r"^(?:\+\+\+ b|--- a)/(.+?)\t?$", task.patch, flags=re.MULTILINE)))


def expected_test_files(task: Task) -> list[str]:
    """Return the files that hold the expected tests."""
    tests = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))
