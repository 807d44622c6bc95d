"""The generator ``fd_class``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ...python.source import Module, signature
from .family import DeletionGenerator
from .knobs import Knobs
from .target import Target


@dataclass(frozen=True)
class ClassKnobs(Knobs):
    """The shared knobs; a class may be larger than a function."""

    max_lines: Annotated[int, Field(ge=1)] = 400
    """Most lines of deleted code, without docstrings and comments."""


class ClassDeletion(DeletionGenerator):
    """Delete one top-level class, or the bodies of its methods, and ask for it back.

    In mode ``stub`` docstrings, signatures and class attributes stay; private methods that only the class itself used
    are deleted. A dataclass, enum, named tuple or exception is eligible when it has methods with code, since one that
    only declares fields leaves nothing to write. Metaclasses are not eligible: they run while classes are created.
    """

    name = "fd_class"
    version = "3"
    knobs = ClassKnobs

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        """Yield the classes of the module that are defined once."""
        definitions = module.definitions()
        for item in definitions:
            single = sum(other.name == item.name for other in definitions) == 1
            if item.kind == "class" and single and "(type)" not in signature(module, item):
                yield Target(module, "class", (item,))
