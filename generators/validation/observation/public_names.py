"""Public names: under which name a user of the package reaches a function, a class or an object of it.

The text of this file runs in the sandbox of the tests, on Python 3.8 and later.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined this name already
    from .literal_forms import standard_name


class PublicNames:
    """The names without a leading underscore in the loaded modules of some packages; the shortest path counts."""

    def __init__(self, packages: list[str], is_test: Callable[[str], bool]) -> None:
        self.packages = frozenset(packages)
        self.places: dict[int, tuple[str, str]] = {}  # by ``id``: module and name
        self.codes: dict[int, list[tuple[Any, str, str]]] = {}  # by ``id`` of the code: function, module, dotted name
        self._kept: list[Any] = []  # so that no ``id`` is used again
        modules = sorted(sys.modules.items(), key=lambda item: (item[0].count("."), item[0]))
        for path, module in modules:
            parts = path.split(".")
            file = getattr(module, "__file__", None)
            is_public = parts[0] in self.packages and not any(part.startswith("_") for part in parts)
            if is_public and file and not is_test(file):
                self._add(path, module)

    def is_own(self, module: Any) -> bool:
        """Return whether a module's name is one of the packages'."""
        return isinstance(module, str) and module.partition(".")[0] in self.packages

    def _add(self, path: str, module: types.ModuleType) -> None:
        listed = getattr(module, "__all__", None)
        first = list(listed) if isinstance(listed, (list, tuple)) else []
        for name in [*first, *sorted(vars(module))]:
            value = vars(module).get(name) if isinstance(name, str) and name[:1] != "_" else None
            if value is None or isinstance(value, types.ModuleType):
                continue
            described = value if callable(value) and hasattr(value, "__module__") else type(value)
            if not self.is_own(getattr(described, "__module__", None)) or id(value) in self.places:
                continue
            self._kept.append(value)
            self.places[id(value)] = path, name
            self._add_codes(value, path, name)
            if isinstance(value, type):
                for member, item in vars(value).items():
                    if isinstance(item, staticmethod) and not member.startswith("_"):
                        self._add_codes(item.__func__, path, f"{name}.{member}")

    def _add_codes(self, value: Any, path: str, name: str) -> None:
        for function in unwrapped(value):
            self._kept.append(function.__code__)
            self.codes.setdefault(id(function.__code__), []).append((function, path, name))

    def text(self, value: Any, imports: set[str]) -> str | None:
        """Return the name of an object, and add the import that it needs; None for one without a public name."""
        place = self.places.get(id(value))
        if place is None:
            return standard_name(value, imports)
        imports.add("from {} import {}".format(*place))
        return place[1]

    def function_of(self, frame: types.FrameType) -> tuple[Any, str, str] | None:
        """Return the function whose call a frame is, its module and its name; None when no public name has it."""
        options = self.codes.get(id(frame.f_code), [])
        if len(options) > 1:  # functions that one decorator made
            options = [item for item in options if has_closure(item[0], frame)]
        return options[0] if options else None


def unwrapped(value: Any) -> Iterator[Any]:
    """Yield the Python functions behind a callable: itself, and what its decorators wrap."""
    for _ in range(10):
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        elif isinstance(value, functools.partial):
            return
        if isinstance(getattr(value, "__code__", None), types.CodeType):
            yield value
        value = getattr(value, "__wrapped__", None)
        if value is None:
            return


def has_closure(function: Any, frame: types.FrameType) -> bool:
    """Return whether a frame sees what a function has captured."""
    for number, name in enumerate(function.__code__.co_freevars):
        cell = function.__closure__[number]
        try:
            if frame.f_locals.get(name) is not cell.cell_contents:
                return False
        except ValueError:
            return False
    return True
