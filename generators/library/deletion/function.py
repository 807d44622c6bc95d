"""``fd_function``: one top-level function loses its body, or goes with every name for it."""

from __future__ import annotations

from collections.abc import Iterator

from ...python.source import Module
from .bodies import decorators
from .knobs import Knobs
from .proposal import DeletionGenerator
from .target import Target


class FunctionDeletion(DeletionGenerator):
    """A function that is defined twice counts only when all but the last are overloads."""

    name = "fd_function"
    version = "2"

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        found = [item for item in module.definitions() if not item.name.startswith("__")]
        for name in dict.fromkeys(item.name for item in found if item.kind == "function"):
            twins = [item for item in found if item.name == name]
            declared = [item for item in twins[:-1] if any("overload" in mark for mark in decorators(module, item))]
            if len(declared) == len(twins) - 1 and twins[-1].kind == "function":
                yield Target(module, "function", tuple(twins))
