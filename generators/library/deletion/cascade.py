"""What dies with deleted code: private helpers, constants and imports that nothing else mentions.

Left behind, they give half of the answer away: the helper's code, or what the solution is built from. A name counts as
mentioned if it stands as a word anywhere else, in code, strings or comments, so what is removed is removed safely.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from ...python.source import Module, Span, line_span, with_leading_comments, words
from ...python.source_tree import SourceTree
from .edits import items_without


@dataclass
class Dead:
    """Names that go besides the deleted code itself, and their byte spans by file."""

    definitions: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    spans: dict[str, list[Span]] = field(default_factory=dict)


def dead_after(tree: SourceTree, gone: Mapping[str, list[Span]]) -> Dead:
    """What only the ``gone`` spans needed, to a fixpoint: a helper's helper goes too, in whatever module it is."""
    dead = Dead()
    modules = [module for module in tree.modules() if not module.path.endswith("__init__.py")]
    candidates = {(module.path, name): spans for module in modules for name, spans in _private(module).items()}
    sources = {module.path: module for module in modules}
    while True:
        cut = {path: [*gone.get(path, []), *dead.spans.get(path, [])] for path in {*gone, *dead.spans}}
        needed = words(b"\n".join(tree.python_files[path][a:b] for path, spans in cut.items() for a, b in spans))
        found = False
        for (path, name), spans in list(candidates.items()):
            if name not in needed:
                continue
            outside = {**cut, path: [*cut.get(path, []), *spans]}
            if not tree.mentions(name, outside=outside):
                dead.definitions.append(name)
                source = sources[path].source
                dead.spans.setdefault(path, []).extend(with_leading_comments(source, span) for span in spans)
                del candidates[path, name]
                found = True
        for path in [path for path in cut if path in sources]:
            found |= _dead_imports(tree, sources[path], cut[path], dead)
        if not found:
            return dead


def _private(module: Module) -> dict[str, list[Span]]:
    """``_name`` functions, classes and plain assignments of the module and of its classes, dunders left out."""
    found: dict[str, list[Span]] = {}
    bodies = [module.root, *(item.body for item in module.definitions() if item.kind == "class")]
    for body in bodies:
        for item in module.definitions(body):
            found.setdefault(item.name, []).append(item.span)
        # The last statement of a class cannot go: something must be left of it.
        for node in [node for node in body.named_children if node.type == "expression_statement"]:
            assignment = node.named_children[0] if node.named_children else None
            target = assignment.child_by_field_name("left") if assignment and assignment.type == "assignment" else None
            if target is not None and target.type == "identifier":
                found.setdefault(module.text(target), []).append(_span(node))
    return {name: spans for name, spans in found.items() if re.match(r"_[^_]", name)}


def _dead_imports(tree: SourceTree, module: Module, gone: list[Span], dead: Dead) -> bool:
    before = len(dead.imports)
    for node in module.statements():
        if node.type not in ("import_statement", "import_from_statement") or _inside(_span(node), gone):
            continue
        names = node.children_by_field_name("name")
        unused = [item for item in names if _only_in(tree, module, _bound_name(module, item), node, gone)]
        unused = [item for item in unused if not _inside(_span(item), gone)]
        if not unused or b"noqa" in module.source[node.end_byte : line_span(module.source, _span(node))[1]]:
            continue
        dead.imports += [_bound_name(module, item) for item in unused]
        left = [item for item in names if item not in unused and not _inside(_span(item), gone)]
        spans = dead.spans.setdefault(module.path, [])
        if not left:
            spans.append(line_span(module.source, _span(node)))
        else:
            spans += _names_in_list(names, [item for item in names if item not in left])
    return len(dead.imports) > before


def _inside(span: Span, gone: list[Span]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in gone)


def _only_in(tree: SourceTree, module: Module, name: str, node: Node, gone: list[Span]) -> bool:
    """Whether ``name`` was used by the deleted code and nowhere else, neither here nor as somebody's re-export."""
    word = rf"\b{re.escape(name)}\b".encode()
    if not any(
        re.search(word, module.source[start:end]) for start, end in gone if not _inside((start, end), [_span(node)])
    ):
        return False
    if module.path in tree.mentions(name, outside={module.path: [*gone, _span(node)]}):
        return False
    stem = module.path.removesuffix(".py").rsplit("/", 1)[-1]
    imported = re.compile(rf"\bfrom\s+[\w.]*\b{re.escape(stem)}\s+import\s+(\([^)]*\)|[^\n]*)")
    attribute = re.compile(rf"\b{re.escape(stem)}\.{re.escape(name)}\b")
    for path, source in tree.python_files.items():
        text = source.decode("utf-8", "replace") if path != module.path else ""
        if attribute.search(text):
            return False
        if any(re.search(rf"\b{re.escape(name)}\b|\*", found.group(1)) for found in imported.finditer(text)):
            return False
    return True


def _bound_name(module: Module, node: Node) -> str:
    """The name that an import binds: its alias, or the first part of a dotted name."""
    alias = node.child_by_field_name("alias") if node.type == "aliased_import" else None
    return module.text(alias) if alias is not None else module.text(node).split(".")[0]


def _names_in_list(names: list[Node], unused: list[Node]) -> list[Span]:
    """The bytes of the unused names in ``a, b, c``, each run with the comma that separates it from what stays."""
    numbers = {number for number, item in enumerate(names) if item in unused}
    return [span for span, _ in items_without(b"", [_span(item) for item in names], numbers)]


def _span(node: Node) -> Span:
    return node.start_byte, node.end_byte
