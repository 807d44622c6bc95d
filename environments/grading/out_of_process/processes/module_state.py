"""State of modules: what a call changes at the top level of the package's modules and classes.

The text of this file is also run inside sandboxes, after that of ``own_state.py``, on Python 3.8 and later. A function
may return nothing and change a registry, a counter or a default instead. So an answer also says which items of such
containers, and which plain values, the call changed (``modules``). Names of caches are left out: a solution does not
have to fill one.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ..values.places import canonical, is_of_tests, resolve

GONE = ["gone"]
"""Stands for an item that a call removed."""
MAX_HELD = 2_000
"""Most items of a container that is looked at."""
_HOLDERS = (dict, list, set)
_PLAIN_VALUES = (type(None), bool, int, float, str, bytes)
_MISSING = types.SimpleNamespace()


class ModuleState:
    """The containers and plain values of modules and classes as they are now; made before a call.

    ``watched`` are the names that count, ``module:name`` or ``module:class.name``; None for all of the packages.
    """

    def __init__(self, packages: Iterable[str], watched: Iterable[str] | None = None) -> None:
        self.spaces: list[tuple[str, Any, dict[str, Any]]] = []
        if watched is not None:
            for name in watched:
                self._add_one(name)
        else:
            tops = frozenset(packages)
            for module_name, module in list(sys.modules.items()):
                is_own = module_name.partition(".")[0] in tops and isinstance(module, types.ModuleType)
                if is_own and not is_of_tests(module_name):
                    self._add(f"{module_name}:", vars(module), module_name)
        self.held: dict[str, tuple[Any, Any]] = {}
        for prefix, _, names in self.spaces:
            for name, item in names.items():
                if type(item) in _HOLDERS and len(item) <= MAX_HELD and _is_state(name):
                    self.held[prefix + name] = item, type(item)(item)

    def _add_one(self, name: str) -> None:
        module, _, path = name.partition(":")
        owner, _, last = path.rpartition(".")
        try:
            space = vars(resolve(module, owner))
        except (ImportError, AttributeError, TypeError):  # whatever the solution made of it
            return
        self.spaces.append((name[: len(name) - len(last)], space, {last: space[last]} if last in space else {}))

    def _add(self, prefix: str, space: Any, module: str) -> None:
        names = dict(space)
        self.spaces.append((prefix, space, names))
        for name, item in names.items() if prefix.endswith(":") else ():
            if isinstance(item, type) and item.__module__ == module and item.__qualname__ == name:
                self._add(f"{prefix}{name}.", vars(item), module)

    def changes(self, values: Any) -> dict[str, Any]:
        """Return what has changed since then: pairs of a key and its new value, by name."""
        changed: dict[str, list[Any]] = {}
        for name, (item, before) in self.held.items():
            pairs = list(_differing(values, before, item))
            if pairs:
                changed[name] = pairs
        for prefix, space, names in self.spaces:
            for name, before in names.items():
                now = space.get(name, _MISSING)
                if now is before or not _is_state(name) or not {type(now), type(before)} & {*_PLAIN_VALUES, *_HOLDERS}:
                    continue
                form = GONE if now is _MISSING else values.alone(now)
                if form != values.alone(before):
                    changed.setdefault(prefix + name, []).append([None, form])
        return {name: sorted(pairs, key=canonical) for name, pairs in sorted(changed.items())}


def _is_state(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return not is_special and not any(part in name.lower() for part in ("cache", "memo"))


def _differing(values: Any, before: Any, now: Any) -> Iterator[Any]:
    """Yield the changed items of a container, each with its new value."""
    if type(now) is list:
        if len(before) != len(now) or any(one is not other for one, other in zip(before, now)):  # noqa: B905
            yield [None, values.alone(now)]
    elif type(now) is set:
        yield from ([values.alone(item), True] for item in now - before)
        yield from ([values.alone(item), GONE] for item in before - now)
    else:
        for key, item in now.items():
            if before.get(key, _MISSING) is not item:
                form = values.alone(item)
                if key not in before or values.alone(before[key]) != form or form == ["?"]:
                    yield [values.alone(key), form]
        yield from ([values.alone(key), GONE] for key in before.keys() - now.keys())
