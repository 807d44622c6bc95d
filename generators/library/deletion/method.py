"""The generator ``fd_method``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...python.source import Module
from .family import DeletionGenerator
from .knobs import Knobs
from .target import Target


@dataclass(frozen=True)
class MethodKnobs(Knobs):
    """The shared knobs, and which methods are eligible."""

    dunder: bool = False
    """Special methods such as ``__len__`` are eligible too."""


class MethodDeletion(DeletionGenerator):
    """Delete one method, property or classmethod of a class and ask for it back.

    A property goes with its setter and deleter, a method with its overloads. Abstract methods are not eligible, since
    they have no body. An override elsewhere stays as it is. In mode ``remove``, calls on ``self``, ``cls`` and
    ``super()`` are followed unless a base class provides the name too; calls on other objects stay, because the source
    does not say what these objects are.
    """

    name = "fd_method"
    version = "3"
    knobs = MethodKnobs

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        """Yield the methods of the module's classes."""
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
