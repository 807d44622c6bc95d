"""The generator ``fd_function``."""

from __future__ import annotations

from collections.abc import Iterator

from ...python.source import Module
from .bodies import decorators
from .family import DeletionGenerator
from .knobs import Knobs
from .target import Target


class FunctionDeletion(DeletionGenerator):
    """Delete one top-level function and ask for it back.

    A name that is defined several times is eligible only when all definitions but the last are overloads.
    """

    name = "fd_function"
    version = "4"

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        """Yield the functions of the module, each with its overloads."""
        definitions = [item for item in module.definitions() if not item.name.startswith("__")]
        for name in dict.fromkeys(item.name for item in definitions if item.kind == "function"):
            twins = [item for item in definitions if item.name == name]
            overloads = [item for item in twins[:-1] if any("overload" in mark for mark in decorators(module, item))]
            if len(overloads) == len(twins) - 1 and twins[-1].kind == "function":
                yield Target(module, "function", tuple(twins))
