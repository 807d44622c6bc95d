"""``fd_class``: one top-level class loses the bodies of its methods, or goes with every name for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...python.source import Module, signature
from .knobs import Knobs
from .proposal import DeletionGenerator
from .target import Target


@dataclass(frozen=True)
class ClassKnobs(Knobs):
    """A class may be larger than a function."""

    max_lines: int = 400


class ClassDeletion(DeletionGenerator):
    """In ``stub`` mode the docstrings, signatures and class attributes stay; private methods that only the class itself
    used are gone. A dataclass, enum, named tuple or exception is eligible when it has methods with code: one that only
    declares fields leaves nothing to write. Metaclasses are not: they run while their classes are made.
    """

    name = "fd_class"
    version = "1"
    knobs = ClassKnobs

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        found = module.definitions()
        for item in found:
            single = sum(other.name == item.name for other in found) == 1
            if item.kind == "class" and single and "(type)" not in signature(module, item):
                yield Target(module, "class", (item,))
