"""One shape for every extension point: names to dotted paths, loaded when asked for, open to third parties."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from .errors import UnknownName


def did_you_mean(kind: str, name: str, known: Iterable[str]) -> str:
    """One line: what is unknown, the nearest known name, and the whole list when it is short."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"unknown {kind} {name!r}. Did you mean {near[0]!r}?"
    return f"unknown {kind} {name!r}. There are: {', '.join(names) or 'none'}"


class Registry:
    """Names to ``module:attribute`` paths; ``group`` is the entry-point group that third parties use."""

    def __init__(self, kind: str, group: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._builtin = dict(builtin)

    def paths(self) -> dict[str, str]:
        """Every registered name and where it lives; built-in names win."""
        found = {point.name: point.value for point in entry_points(group=self.group)}
        return {**found, **self._builtin}

    def names(self) -> list[str]:
        return sorted(self.paths())

    def load(self, name: str) -> Any:
        """The object behind ``name``. Raises UnknownName with the nearest name."""
        paths = self.paths()
        if name not in paths:
            raise UnknownName(did_you_mean(self.kind, name, paths))
        module, _, attribute = paths[name].partition(":")
        # Relative paths keep a checkout's modules under one name, whatever the package is called.
        package = __package__ if module.startswith(".") else None
        return getattr(importlib.import_module(module, package), attribute)

    def describe(self, name: str) -> str:
        """Return the first line of an object's docstring, or of its module's; else a line that says what is wrong."""
        try:
            loaded = self.load(name)
        except Exception as error:  # noqa: BLE001 - a plug-in of a third party may fail in any way
            return f"cannot be loaded: {type(error).__name__}: {error}".partition("\n")[0]
        text = inspect.getdoc(loaded) or inspect.getdoc(inspect.getmodule(loaded)) or "no description"
        return text.partition("\n")[0]
