"""Which parts of the test files leave the workspace, and come back at grading.

A hidden test is cut out by its span; with it go the test helpers, constants and fixtures that nothing else mentions,
since they hold the expected answers. What cannot be located leaves with its class, or with its whole file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from . import Files
from .python_source import Definition, Module, Span, compiles, delete_spans, with_leading_comments, words
from .source_tree import SourceTree


def test_file(test: str) -> str:
    return test.split("::", 1)[0]


def hide(tree: SourceTree, hidden: Iterable[str]) -> Files:
    """Test files as the workspace shows them; ``None`` for one that is hidden whole. Unchanged files are left out."""
    by_file: dict[str, list[list[str]]] = defaultdict(list)
    for test in hidden:
        path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
        if parts not in by_file[path]:
            by_file[path].append(parts)
    return {path: _without(tree, path, names) for path, names in sorted(by_file.items())}


def names_target(tree: SourceTree, test: str, name: str) -> bool:
    """Whether the test's own code says ``name``: it is about the entity, not merely affected by it."""
    path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
    if path not in tree.python_files or not parts:
        return False
    module = Module(path, tree.python_files[path])
    spans = _spans(module, [parts])
    return name in parts[-1] or (spans is not None and _word_in(name, module.source, spans))


def _without(tree: SourceTree, path: str, names: list[list[str]]) -> bytes | None:
    if not path.endswith(".py") or path not in tree.python_files:
        return None
    module = Module(path, tree.python_files[path])
    spans = _spans(module, names)
    if module.broken or spans is None:
        return None
    spans += _unused_after(tree, module, spans)
    left = delete_spans(module.source, [with_leading_comments(module.source, span) for span in spans])
    if compiles(path, left) or not _holds_tests(path, left):
        return None
    return left


def _spans(module: Module, names: list[list[str]]) -> list[Span] | None:
    """The spans of the named tests; a class goes whole when nothing is left of it. ``None``: not all were found."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for parts in names:
        wanted[parts[0]].add(parts[-1] if len(parts) > 1 else "")
    found: list[Span] = []
    for definition in module.definitions():
        methods = wanted.pop(definition.name, None)
        if methods is not None:
            found += _class_spans(module, definition, methods) if definition.kind == "class" else [definition.span]
    return None if wanted else found


def _class_spans(module: Module, definition: Definition, methods: set[str]) -> list[Span]:
    members = module.definitions(definition.body)
    spans = [member.span for member in members if member.name in methods]
    inherited = methods - {member.name for member in members}
    rest = [member for member in members if member.name not in methods]
    if inherited or not any(member.name.startswith("test") for member in rest):
        return [definition.span]
    return spans


def _unused_after(tree: SourceTree, module: Module, spans: list[Span]) -> list[Span]:
    """Top-level helpers and assignments that only the hidden tests mentioned, to a fixpoint."""
    gone = list(spans)
    candidates = _helpers(module, spans)
    found = True
    while found:
        found = False
        for name, span in list(candidates.items()):
            if _word_in(name, module.source, gone) and not _mentioned(tree, module, name, [*gone, span]):
                gone.append(span)
                del candidates[name]
                found = True
    return gone[len(spans) :]


def _mentioned(tree: SourceTree, module: Module, name: str, gone: list[Span]) -> bool:
    """Whether anything left uses a test helper: this file, or one that could have it from here."""
    stem = module.path.removesuffix(".py").rsplit("/", 1)[-1]
    shared = stem in ("conftest", "__init__")
    mentions = tree.mentions(name, outside=(module.path, gone))
    return any(path == module.path or shared or stem in tree.word_index[path] for path in mentions)


def _helpers(module: Module, spans: list[Span]) -> dict[str, Span]:
    found = {}
    for definition in module.definitions():
        if not definition.name.lower().startswith("test") and definition.span not in spans:
            found[definition.name] = definition.span
    for node in module.statements():
        assignment = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
        target = assignment.child_by_field_name("left") if assignment and assignment.type == "assignment" else None
        if target is not None and target.type == "identifier" and not module.text(target).startswith("pytest"):
            found[module.text(target)] = (node.start_byte, node.end_byte)
    return found


def _word_in(name: str, source: bytes, spans: list[Span]) -> bool:
    return any(name in words(source[start:end]) for start, end in spans)


def _holds_tests(path: str, source: bytes) -> bool:
    """Whether a test file still says anything: one that holds no test leaves whole."""
    module = Module(path, source)
    return any(item.kind == "class" or item.name.lower().startswith("test") for item in module.definitions())
