"""``fd_method``: one method, property (with setter and deleter) or classmethod of a top-level class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...python.source import Module
from .knobs import Knobs
from .proposal import DeletionGenerator
from .target import Target


@dataclass(frozen=True)
class MethodKnobs(Knobs):
    """``dunder``: special methods (``__len__``) are eligible too."""

    dunder: bool = False


class MethodDeletion(DeletionGenerator):
    """Overloads go together. Abstract methods have no body to write; an override elsewhere stays as it is.

    In ``remove`` mode calls on ``self``, ``cls`` and ``super()`` are followed unless a base class provides the name
    too; calls on other objects are left as they are: nothing in the text says what these objects are.
    """

    name = "fd_method"
    version = "1"
    knobs = MethodKnobs

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        assert isinstance(knobs, MethodKnobs)
        for owner in module.definitions():
            if owner.kind != "class":
                continue
            members = module.definitions(owner.body)
            for name in dict.fromkeys(item.name for item in members if item.kind == "function"):
                special = name.startswith("__") and name.endswith("__")
                twins = tuple(item for item in members if item.name == name)
                if (not special or knobs.dunder) and all(item.kind == "function" for item in twins):
                    yield Target(module, "method", twins, owner)
