"""What dies with a deleted body: private helpers and imports that nothing else mentions.

Left behind, they give half of the answer away: the helper's code, or what the solution is built from. A name counts as
mentioned if it stands as a word anywhere else, in code, strings or comments, so what is removed is removed safely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from ..python_source import Module, Span, line_span, with_leading_comments
from ..source_tree import SourceTree


@dataclass
class Dead:
    """Names and byte spans that go, besides the body itself."""

    definitions: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)


def dead_after(tree: SourceTree, module: Module, body: Span) -> Dead:
    """What only ``body`` needed, to a fixpoint: a helper's helper goes too."""
    dead = Dead()
    if module.path.endswith("__init__.py"):
        return dead
    candidates = _private_definitions(module)
    found = True
    while found:
        found = False
        for name, span in list(candidates.items()):
            if not tree.mentions(name, outside=(module.path, [body, span, *dead.spans])):
                dead.definitions.append(name)
                dead.spans.append(with_leading_comments(module.source, span))
                del candidates[name]
                found = True
    _dead_imports(tree, module, body, dead)
    return dead


def _private_definitions(module: Module) -> dict[str, Span]:
    """Top-level ``_name`` functions, classes and plain assignments, dunders left out."""
    found = {item.name: item.span for item in module.definitions()}
    for node in module.statements():
        if node.type != "expression_statement" or not node.named_children:
            continue
        assignment = node.named_children[0]
        target = assignment.child_by_field_name("left") if assignment.type == "assignment" else None
        if target is not None and target.type == "identifier":
            found[module.text(target)] = (node.start_byte, node.end_byte)
    return {name: span for name, span in found.items() if re.match(r"_[^_]", name)}


def _dead_imports(tree: SourceTree, module: Module, body: Span, dead: Dead) -> None:
    gone = [body, *dead.spans]
    for node in module.statements():
        if node.type not in ("import_statement", "import_from_statement"):
            continue
        names = node.children_by_field_name("name")
        unused = [
            item for item in names if _only_in(tree, module, _bound_name(module, item), node, gone, mentioned_in=body)
        ]
        if not unused or b"noqa" in module.source[node.end_byte : line_span(module.source, _span(node))[1]]:
            continue
        dead.imports += [_bound_name(module, item) for item in unused]
        if len(unused) == len(names):
            dead.spans.append(line_span(module.source, _span(node)))
        else:
            dead.spans += _names_in_list(names, unused)


def _only_in(tree: SourceTree, module: Module, name: str, node: Node, gone: list[Span], *, mentioned_in: Span) -> bool:
    """Whether ``name`` was used by the deleted code and nowhere else, neither here nor as somebody's re-export."""
    word = rf"\b{re.escape(name)}\b".encode()
    if not any(re.search(word, module.source[start:end]) for start, end in gone):
        return False
    if module.path in tree.mentions(name, outside=(module.path, [*gone, _span(node)])):
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
    spans, first = [], 0
    while first < len(names):
        last = first
        while last < len(names) and names[last] in unused:
            last += 1
        if last > first:
            at_end = last == len(names)
            start = names[first - 1].end_byte if at_end else names[first].start_byte
            spans.append((start, names[-1].end_byte if at_end else names[last].start_byte))
        first = last + 1
    return spans


def _span(node: Node) -> Span:
    return node.start_byte, node.end_byte
