"""Uses of a definition, as far as the source says what a name refers to: lines that call it, and who mentions it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from ....python.source_tree import SourceTree
from ..target import Target
from .name_index import NameIndex
from .source_file import SourceFile


def call_sites(
    tree: SourceTree, target: Target, *, edited: Mapping[str, bytes | None] | None = None, most: int = 5
) -> list[str]:
    """Return at most ``most`` source lines that call the target, as ``path:line: text``.

    ``edited`` are files with other content than in the tree. Calls of methods of other objects do not count unless the
    function made the object itself: their class is unknown.
    """
    index = NameIndex.of(tree)
    dotted = _dotted(index, target)
    sites: list[str] = []
    for path in sorted(index.own):
        if target.short not in tree.word_index[path]:
            continue
        file = _edited(index.files[path], (edited or {}).get(path))
        lines = file.source.splitlines()  # as Python counts them, unlike those of a str
        calls = (node for node in ast.walk(file.tree) if isinstance(node, ast.Call))
        numbers = {node.func.end_lineno or node.lineno for node in calls if _refers(index, file, node.func, dotted)}
        texts = [(number, lines[number - 1].decode("utf-8", "replace").strip()) for number in sorted(numbers)]
        sites += [f"{path}:{number}: {text}" for number, text in texts]
    return sites[:most]


def users_within(tree: SourceTree, targets: Sequence[Target]) -> dict[str, list[str]]:
    """Return for each target, by entity, the names of the others whose bodies mention it."""
    index = NameIndex.of(tree)
    by_name: dict[str, list[Target]] = {}
    for target in targets:
        by_name.setdefault(target.short, []).append(target)
    users: dict[str, dict[str, None]] = {target.entity: {} for target in targets}
    for path in dict.fromkeys(target.module.path for target in targets):
        file = index.files[path]
        bodies = [(span, item.name) for item in targets if item.module.path == path for span in item.body_spans()]
        for node in _mentions(file.tree, by_name):
            start = file.span(node)[0]
            for user in dict.fromkeys(name for (first, last), name in bodies if first <= start < last):
                for target in by_name[node.id if isinstance(node, ast.Name) else node.attr]:
                    if (user, path) != (target.name, target.module.path) and _refers(
                        index, file, node, _dotted(index, target)
                    ):
                        users[target.entity][user] = None
    order = list(dict.fromkeys(target.name for target in targets))
    return {entity: sorted(names, key=order.index) for entity, names in users.items()}


def _mentions(tree: ast.AST, names: Collection[str]) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names and attributes that are spelled like one of ``names``."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Name) and node.id in names) or (
            isinstance(node, ast.Attribute) and node.attr in names
        ):
            yield node


def _dotted(index: NameIndex, target: Target) -> str:
    return f"{index.tree.dotted_name(target.module.path)}.{target.name}"


def _edited(file: SourceFile, content: bytes | None) -> SourceFile:
    return file if content is None else SourceFile(file.path, content, file.dotted)


def _refers(index: NameIndex, file: SourceFile, node: ast.AST, dotted: str) -> bool:
    """Return whether a Name or Attribute stands for the definition of that dotted name."""
    owner, _, short = dotted.rpartition(".")
    if isinstance(node, ast.Name):
        return node.id == short and index.resolve(file, node) == dotted
    if not isinstance(node, ast.Attribute) or node.attr != short:
        return False
    return index.resolve(file, node) == dotted or owner in _classes(index, file, node.value)


def _classes(index: NameIndex, file: SourceFile, node: ast.AST) -> set[str]:
    """Return the classes, with their bases, of an object that an expression makes or that its function made before."""
    calls = [node] if isinstance(node, ast.Call) else []
    function = file.function(node)
    if isinstance(node, ast.Name) and function is not None:
        for item in ast.walk(function):
            if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call):
                calls += [item.value for name in item.targets if isinstance(name, ast.Name) and name.id == node.id]
    names = [index.resolve(file, call.func) for call in calls]
    return {item for name in names if name for item in index.lineage(name)}
