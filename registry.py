"""Registries of extensions: names to dotted paths, loaded on demand and open to third parties."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from .errors import UnknownName

_LIKE, _VERY_LIKE = 0.65, 0.8
"""Similarities (``difflib`` ratio) of a mistyped name, with the same first letter and with another one."""
LISTED = 200
"""Names of one message."""


def did_you_mean(kind: str, name: str, names: Iterable[str]) -> str:
    """Return one line that names what is unknown and the nearest of ``names``, or all of them when none is near.

    Near are the names that begin with ``name``, else the one that was mistyped, else those that share a word with it.
    """
    existing = sorted(names)
    begun = [one for one in existing if name and one.lower().startswith(name.lower())]
    near = [repr(one) for one in begun or _mistyped(name, existing) or _related(name, existing)]
    if len(near) == 1:
        return f"unknown {kind} {name!r}. Did you mean {near[0]}?"
    if near:
        return f"unknown {kind} {name!r}. Did you mean one of {_listed(near)}?"
    return f"unknown {kind} {name!r}. There are: {_listed(existing) or 'none'}"


def _listed(names: Sequence[str]) -> str:
    """Return the names in a row; a task set may have thousands."""
    more = f" and {len(names) - LISTED} others" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _mistyped(name: str, existing: Sequence[str]) -> list[str]:
    """Return the name that is most like ``name``, whatever the case; none when even that begins otherwise."""
    by_lower = {one.lower(): one for one in existing}
    for near in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=_LIKE):
        ratio = difflib.SequenceMatcher(None, name.lower(), near).ratio()
        if ratio >= _VERY_LIKE or near[:1] == name[:1].lower():
            return [by_lower[near]]
    return []


def _related(name: str, existing: Sequence[str]) -> list[str]:
    """Return the names of which a word begins like a word of ``name``, such as ``history_pr`` for ``history``."""
    words = _words(name)
    return [one for one in existing if any(w.startswith(o) or o.startswith(w) for o in _words(one) for w in words)]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if len(word) > 2]


class Registry:
    """Registered extensions: names to ``module:attribute`` paths. Third parties use the entry-point group ``group``."""

    def __init__(self, kind: str, group: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._builtin = dict(builtin)

    def paths(self) -> dict[str, str]:
        """Return every registered name with its path; a built-in name cannot be taken by a third party."""
        third_party = {point.name: point.value for point in entry_points(group=self.group)}
        return {**third_party, **self._builtin}

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        return sorted(self.paths())

    def names_in_order(self) -> list[str]:
        """Return the built-in names in the order of their registration, then those of third parties, sorted."""
        return [*self._builtin, *(name for name in self.names() if name not in self._builtin)]

    def load(self, name: str) -> Any:
        """Return the object behind ``name``. Raises UnknownName, which offers the nearest name."""
        module, attribute = self._locate(name)
        return getattr(module, attribute)

    def _locate(self, name: str) -> tuple[ModuleType, str]:
        # A plug-in cannot take a built-in name, and a scan for plug-ins reads the metadata of all installed packages.
        path = self._builtin.get(name)
        if path is None:
            paths = self.paths()
            if name not in paths:
                raise UnknownName(did_you_mean(self.kind, name, paths))
            path = paths[name]
        module, _, attribute = path.partition(":")
        # Relative paths keep a checkout's modules under one name, whatever the package is called.
        package = __package__ if module.startswith(".") else None
        return importlib.import_module(module, package), attribute

    def describe(self, name: str) -> str:
        """Return the first line of the docstring of the registered object, or of its module when it has none itself.

        An object that cannot be loaded is described by the reason. Raises UnknownName.
        """
        try:
            module, attribute = self._locate(name)
            text = _own_docstring(getattr(module, attribute)) or module.__doc__ or ""
        except UnknownName:
            raise
        except Exception as error:  # noqa: BLE001  # a third party's module may raise anything when it is imported
            return f"cannot be loaded ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        return next((line.strip() for line in text.splitlines() if line.strip()), "no description")


def _own_docstring(loaded: Any) -> str | None:
    """Return the docstring written for this object: not an inherited one, nor the one that @dataclass generates."""
    text = vars(loaded).get("__doc__") if hasattr(loaded, "__dict__") else None
    if inspect.isclass(loaded) and str(text).startswith(f"{loaded.__name__}("):
        return None
    return text or (loaded.__doc__ if inspect.isfunction(loaded) else None)
