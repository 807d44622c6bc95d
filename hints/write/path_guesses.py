"""Paths that an agent may know of, and those among them that it may have meant."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from ..transcript.call_effects import command_of, has_failed, path_of, workspace_path
from ..transcript.past_turns import PastCall

_PRINTED = re.compile(
    r"^[ \t]*(?:[MADRCU?!]{1,2}[ \t]+)?((?:[\w.@+-]+/)*[\w@+-]*\.?[\w@+-]+)(?::\d+:.*)?[ \t]*$", re.MULTILINE
)
"""A path at the start of a line, as list_files, search, ls, find, grep -n and git status print them."""
_COMPARED = 5_000
_NEAREST, _INSIDE = 3, 4
"""Paths that are named: near a missing one, and in a folder."""


def known_paths(earlier: Iterable[PastCall], files: Sequence[str]) -> list[str]:
    """Return ``files``, then the paths that calls which worked named or printed, each once."""
    paths = dict.fromkeys(files)
    for call in earlier:
        if has_failed(call):
            continue
        named = path_of(call)
        if named and "." in posixpath.basename(named):
            paths[workspace_path(named)] = None
        if call.name.startswith(("list", "search", "grep", "find", "glob")) or _lists(command_of(call)):
            paths.update(dict.fromkeys(_printed(call.body)))
    return list(paths)


def _lists(command: str) -> bool:
    return command.lstrip().startswith(("ls", "find", "rg", "grep -", "git ls-files", "git status", "fd", "tree"))


@lru_cache(maxsize=512)
def _printed(body: str) -> tuple[str, ...]:
    return tuple(workspace_path(path) for path in _PRINTED.findall(body) if "/" in path or "." in path)


def nearest_paths(path: str, candidates: Sequence[str]) -> list[str]:
    """Return the candidates most like ``path``: the same name elsewhere, else by spelling. Never ``path`` itself."""
    return list(_nearest(path, tuple(candidates)))


@lru_cache(maxsize=1024)  # a transcript is annotated again after each of its turns
def _nearest(path: str, candidates: tuple[str, ...]) -> tuple[str, ...]:
    missing = workspace_path(posixpath.normpath(path)) if path else ""
    folders = [] if "." in posixpath.basename(missing) else list(dict.fromkeys(_parents(candidates[:_COMPARED])))
    others = [other for other in [*folders, *candidates] if other != missing][:_COMPARED]
    base = posixpath.basename(missing)
    same = [other for other in others if posixpath.basename(other) == base]
    same.sort(key=lambda other: (-difflib.SequenceMatcher(None, missing, other).ratio(), other))
    if same:
        return tuple(same[:_NEAREST])
    similar_paths = difflib.get_close_matches(missing, others, n=_NEAREST, cutoff=0.75)
    names: dict[str, str] = {}
    for other in others:
        names.setdefault(posixpath.basename(other), other)
    similar_names = [names[name] for name in difflib.get_close_matches(base, list(names), n=_NEAREST, cutoff=0.7)]
    return tuple(dict.fromkeys([*similar_paths, *similar_names]))[:_NEAREST]


def _parents(paths: Iterable[str]) -> Iterator[str]:
    """Yield the folders that hold these paths."""
    for path in paths:
        parts = path.split("/")[:-1]
        yield from ("/".join(parts[:size]) for size in range(1, len(parts) + 1))


def paths_below(folder: str, candidates: Sequence[str]) -> list[str]:
    """Return the first candidates in a folder."""
    prefix = workspace_path(posixpath.normpath(folder)).rstrip("/") + "/"
    return [other for other in candidates if other.startswith(prefix) or prefix == "./"][:_INSIDE]
