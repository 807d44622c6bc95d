"""The monitor of data that the tests go through and that code made empty, so that nothing is left to check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Module, assignments

MIN_ITEMS = 2
_MAKERS = ("set", "dict", "list", "tuple", "frozenset", "OrderedDict", "collections.OrderedDict")


class EmptiedData:
    """Tables and sets at the top of a module that were filled, that visible tests name, and that are empty now.

    A table that moved, that is filled below, or that no test names is ordinary.
    """

    name = "emptied_data"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each such table in added code."""

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            if len(file.base_texts) != 1 or module.text != file.text:
                return
            empty = [(name, node) for name, node, items in _tables(module) if not items]
            if not empty or not file.base_modules:  # most files have none, and to parse the earlier version takes long
                return
            before = {name for name, _, items in _tables(file.base_modules[0]) if items >= MIN_ITEMS}
            for name, node in empty:
                tested = re.compile(rf"\b{re.escape(name)}\b".encode())
                is_emptied = name in before and not _is_filled(module, name)
                if is_emptied and any(tested.search(data) for data in inspection.tests.values()):
                    yield hit_at(module, node, "T01", f"{name} is empty, and tests go through it")

        return findings(inspection, search)


def _tables(module: Module) -> Iterator[tuple[str, ast.AST, int]]:
    """Yield name, place and number of items of each table that is assigned outside of functions."""
    for node in module.tree.body:
        for target, value in assignments(node):
            if isinstance(target, ast.Name) and (items := _items(module, value)) is not None:
                yield target.id, node, items


def _items(module: Module, node: ast.AST) -> int | None:
    """Return how many items a display has, None for another expression."""
    if isinstance(node, ast.Dict):
        return len(node.keys)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return len(node.elts)
    if isinstance(node, ast.Call) and module.dotted(node.func).removesuffix("()") in _MAKERS:
        return _items(module, node.args[0]) if node.args else len(node.keywords)
    return None


def _is_filled(module: Module, name: str) -> bool:
    """Return whether code of the module puts something into a table, or assigns it again."""
    texts = rf"\b{re.escape(name)}(\[[^\]\n]+\]\s*=[^=]|\.(add|append|update|extend|insert|setdefault)\(|\s*\+=|\s*\|=)"
    again = sum(one == name for one, _, _ in _tables(module)) > 1
    return again or re.search(texts, module.text) is not None
