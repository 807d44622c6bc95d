"""The definitions that a piece of code needs: those of the package that it mentions by name, and what these mention."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from tree_sitter import Node

from .source import Definition, Module
from .source_tree import SourceTree

MOST_NAMESAKES = 3
"""A name with more definitions than this, such as ``get``, says too little about which one is meant."""


@dataclass(frozen=True)
class _NamedCode:
    """The definitions of a package, and what each mentions."""

    places: dict[str, list[str]]
    """Definitions by their short name."""
    mentioned: dict[str, set[str]]
    """Names that each definition mentions."""


def reached_definitions(tree: SourceTree, pieces: Iterable[bytes]) -> set[str]:
    """Return ``path::Class.name`` of each definition of the package that the code ``pieces`` reaches by name.

    A name stands for every definition that has it, unless these are too many; so this is an estimate, and not the call
    graph of one run. Special methods are not counted: no code mentions them.
    """
    code = _named_code(tree)
    names = set().union(*(_identifiers(Module("", piece).root) for piece in pieces))
    reached: set[str] = set()
    while names:
        places = {place for name in names for place in code.places.get(name, ())} - reached
        reached |= places
        names = set().union(*(code.mentioned[place] for place in places))
    return reached


@functools.lru_cache(maxsize=4)
def _named_code(tree: SourceTree) -> _NamedCode:
    places: dict[str, list[str]] = {}
    mentioned: dict[str, set[str]] = {}
    for path, source in tree.python_files.items():
        if not tree.is_source(path) or tree.is_test(path):
            continue
        module = Module(path, source)
        for name, definition in _definitions(module):
            short, place = name.rsplit(".", 1)[-1], f"{path}::{name}"
            if not short.startswith("__"):
                places.setdefault(short, []).append(place)
                mentioned[place] = _identifiers(definition.node)
    distinct = {name: namesakes for name, namesakes in places.items() if len(namesakes) <= MOST_NAMESAKES}
    return _NamedCode(distinct, mentioned)


def _definitions(module: Module) -> Iterable[tuple[str, Definition]]:
    """Yield the functions and methods of a module, and the classes, with their qualified names."""
    for definition in module.definitions():
        yield definition.name, definition
        if definition.kind == "class":
            yield from ((f"{definition.name}.{item.name}", item) for item in module.definitions(definition.body))


def _identifiers(root: Node) -> set[str]:
    """Return the identifiers of a part of a syntax tree; comments and strings hold none."""
    names, stack = set(), [root]
    while stack:
        node = stack.pop()
        if node.type == "identifier" and node.text is not None:
            names.add(node.text.decode("utf-8", "replace"))
        stack.extend(node.children)
    return names
