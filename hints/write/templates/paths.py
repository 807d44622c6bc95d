"""Which paths an agent may know of, and which of them it may have meant."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from ...detect.behaviour import log
from ...transcript.past_turns import PastCall

# A path at the start of a line, as list_files, search, ls, find, grep -n and git status print them.
_PRINTED = re.compile(
    r"^[ \t]*(?:[MADRCU?!]{1,2}[ \t]+)?((?:[\w.@+-]+/)*[\w@+-]*\.?[\w@+-]+)(?::\d+:.*)?[ \t]*$", re.MULTILINE
)
_COMPARED = 5_000


def known_paths(earlier: Iterable[PastCall], files: Sequence[str]) -> list[str]:
    """``files``, then what calls that worked were given or printed, each once."""
    found = dict.fromkeys(files)
    for call in earlier:
        if log.failed(call):
            continue
        given = log.path_of(call)
        if given and "." in posixpath.basename(given):
            found[log.norm(given)] = None
        if call.name.startswith(("list", "search", "grep", "find", "glob")) or _lists(log.command(call)):
            found.update(dict.fromkeys(_printed(call.body)))
    return list(found)


def _lists(command: str) -> bool:
    return command.lstrip().startswith(("ls", "find", "rg", "grep -", "git ls-files", "git status", "fd", "tree"))


@lru_cache(maxsize=512)
def _printed(body: str) -> tuple[str, ...]:
    return tuple(log.norm(path) for path in _PRINTED.findall(body) if "/" in path or "." in path)


def nearest_paths(path: str, known: Sequence[str], count: int = 3) -> list[str]:
    """The known paths most like ``path``: the same name elsewhere, else by spelling. Never ``path`` itself."""
    return list(_nearest(path, tuple(known), count))


@lru_cache(maxsize=1024)  # a transcript is annotated again after each of its turns
def _nearest(path: str, known: tuple[str, ...], count: int) -> tuple[str, ...]:
    wanted = log.norm(posixpath.normpath(path)) if path else ""
    folders = [] if "." in posixpath.basename(wanted) else list(dict.fromkeys(_parents(known[:_COMPARED])))
    others = [other for other in [*folders, *known] if other != wanted][:_COMPARED]
    base = posixpath.basename(wanted)
    same = [other for other in others if posixpath.basename(other) == base]
    same.sort(key=lambda other: (-difflib.SequenceMatcher(None, wanted, other).ratio(), other))
    if same:
        return tuple(same[:count])
    whole = difflib.get_close_matches(wanted, others, n=count, cutoff=0.75)
    names: dict[str, str] = {}
    for other in others:
        names.setdefault(posixpath.basename(other), other)
    alike = [names[name] for name in difflib.get_close_matches(base, list(names), n=count, cutoff=0.7)]
    return tuple(dict.fromkeys([*whole, *alike]))[:count]


def _parents(known: Sequence[str]) -> Iterator[str]:
    """The folders that hold these paths."""
    for path in known:
        parts = path.split("/")[:-1]
        yield from ("/".join(parts[:size]) for size in range(1, len(parts) + 1))


def below(folder: str, known: Sequence[str], count: int = 4) -> list[str]:
    """Known paths in a folder."""
    prefix = log.norm(posixpath.normpath(folder)).rstrip("/") + "/"
    return [other for other in known if other.startswith(prefix) or prefix == "./"][:count]
