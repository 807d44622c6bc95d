"""Which parts of the test files leave the workspace and come back at grading.

A hidden test is cut out by its span. Helpers, constants and fixtures that nothing else mentions leave with it, since
they hold the expected answers. A test that cannot be located leaves with its class or with its whole file.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ..base import Files
from .source import (
    Definition,
    Module,
    Span,
    SyntaxSpans,
    assigned_name,
    blank_spans,
    compile_error,
    delete_spans,
    node_span,
    with_leading_comments,
    words,
)
from .source_tree import SourceTree


def test_file(test: str) -> str:
    """Return the file of a test id."""
    return test.split("::", 1)[0]


def split_test_id(test: str) -> tuple[str, list[str]]:
    """Return the file and the names (class, function) of a test id, without its parameters."""
    path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
    return path, parts


def hide(
    tree: SourceTree,
    hidden: Iterable[str],
    rewritten: Files | None = None,
    lost_names: Mapping[str, Sequence[str]] | None = None,
) -> Files:
    """Return the test files as the workspace shows them; ``None`` for one that is hidden as a whole.

    Unchanged files are left out. ``rewritten`` are test files without the names (``lost_names``) that the exercise
    removes. Whatever in them still uses such a name leaves too, even if it passes: it would show what is missing.
    """
    by_file: dict[str, list[list[str]]] = defaultdict(list)
    for test in hidden:
        path, parts = split_test_id(test)
        if parts not in by_file[path]:
            by_file[path].append(parts)
    shown: Files = {}
    for path in sorted({*by_file, *(rewritten or {})}):
        source = (rewritten or {}).get(path, tree.python_files.get(path))
        if source is None or not path.endswith(".py"):
            shown[path] = None
        else:
            shown[path] = _without(tree, path, source, by_file[path], set((lost_names or {}).get(path, [])))
    return shown


def names_subject(tree: SourceTree, test: str, name: str) -> bool:
    """Return whether the test's own code or name contains ``name``, so that the test is about it."""
    path, parts = split_test_id(test)
    if path not in tree.python_files or not parts:
        return False
    module = _module(path, tree.python_files[path])
    spans = _test_spans(module, [parts])
    return name in parts[-1] or (spans is not None and _contains_word(name, module.source, spans))


@lru_cache(maxsize=64)
def _module(path: str, source: bytes) -> Module:
    return Module(path, source)


def _without(tree: SourceTree, path: str, source: bytes, tests: list[list[str]], lost_names: set[str]) -> bytes | None:
    """Return ``source`` without the tests; None when the file must be hidden as a whole."""
    module = _module(path, source)
    original = _top_level_names(_module(path, tree.python_files[path])) if source != tree.python_files[path] else set()
    present = _top_level_names(module)
    spans = _test_spans(module, [parts for parts in tests if parts[0] in present or parts[0] not in original])
    if module.broken or spans is None:
        return None
    spans += _users_of(module, lost_names, spans)
    spans += _unused_after(tree, module, spans)
    remainder = delete_spans(module.source, [with_leading_comments(module.source, span) for span in spans])
    if compile_error(path, remainder):
        return None
    keeps_file = _holds_tests(module, spans) or not tests or not _holds_tests(module, [])
    return remainder if keeps_file or _is_imported(tree, path) else None


def _top_level_names(module: Module) -> set[str]:
    return {item.name for item in module.definitions()}


def _users_of(module: Module, names: set[str], spans: list[Span]) -> list[Span]:
    """Return tests and helpers outside ``spans`` that use one of ``names``: functions, methods, or whole classes."""
    users: list[Span] = []
    places = _positions(module.source, names) if names else []
    for definition in module.definitions() if places else []:
        members = module.definitions(definition.body) if definition.kind == "class" else []
        using = [item for item in members if _holds(item.span, places)]
        others = [item for item in members if item not in using and item.span not in spans]
        if using and any(item.name.startswith("test") for item in others):
            users += [item.span for item in using]
        elif _holds(definition.span, places):
            users.append(definition.span)
    return [span for span in users if span not in spans]


def _positions(source: bytes, names: set[str]) -> list[int]:
    """Return the byte offsets at which ``names`` are used as names, not as words in strings or as attributes."""
    spans = SyntaxSpans(source)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name) and node.id in names]
    return [spans.span(node)[0] for node in nodes]


def _holds(span: Span, places: list[int]) -> bool:
    return any(span[0] <= place < span[1] for place in places)


def _test_spans(module: Module, tests: list[list[str]]) -> list[Span] | None:
    """Return the spans of the named tests, or None if one cannot be located. A class without other tests goes whole."""
    methods_of: dict[str, set[str]] = defaultdict(set)
    for parts in tests:
        methods_of[parts[0]].add(parts[-1] if len(parts) > 1 else "")
    definitions = module.definitions()
    classes = {definition.name: definition for definition in definitions if definition.kind == "class"}
    spans: set[Span] = set()
    for definition in definitions:
        methods = methods_of.pop(definition.name, None)
        if methods is not None:
            chain = _with_bases(module, definition, classes) if definition.kind == "class" else []
            spans |= _method_spans(module, chain, methods) or {definition.span}
    if methods_of:
        return None
    for definition in classes.values():  # a class cannot be made without its base
        if any(base.span in spans for base in _with_bases(module, definition, classes)):
            spans.add(definition.span)
    bodies = [item for item in classes.values() if item.span not in spans]
    return None if any(_is_emptied(item, spans) for item in bodies) else _outermost(spans)


def _outermost(spans: Iterable[Span]) -> list[Span]:
    """Return the different spans that are in no other one."""
    outer: list[Span] = []
    for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if not outer or start >= outer[-1][1]:
            outer.append((start, end))
    return outer


def _with_bases(module: Module, definition: Definition, classes: Mapping[str, Definition]) -> list[Definition]:
    """Return a class and the classes of the same file that it inherits from."""
    chain = [definition]
    for item in chain:
        named = item.node.child_by_field_name("superclasses")
        bases = [classes.get(module.text(node)) for node in (named.named_children if named is not None else [])]
        chain += [base for base in bases if base is not None and base not in chain]
    return chain


def _method_spans(module: Module, classes: Sequence[Definition], methods: set[str]) -> set[Span]:
    """Return the spans of a class's tests, which its bases may define; none where the class has to leave as a whole.

    Every definition of a test leaves, since what the first one hides would take its place.
    """
    members = [item for owner in classes for item in module.definitions(owner.body)]
    spans = {item.span for item in members if item.name in methods}
    has_others = any(item.name not in methods and item.name.startswith("test") for item in members)
    is_known = methods <= {item.name for item in members}
    return spans if classes and is_known and has_others and not _is_emptied(classes[0], spans) else set()


def _is_emptied(definition: Definition, spans: set[Span]) -> bool:
    """Return whether a class has no statement outside ``spans``."""
    statements = [node for node in definition.body.named_children if node.type != "comment"]
    return all(node_span(node) in spans for node in statements)


def _unused_after(tree: SourceTree, module: Module, spans: list[Span]) -> list[Span]:
    """Return top-level helpers and assignments that only hidden tests, or helpers which leave too, mention."""
    removed = list(spans)
    candidates = _helpers(module, spans)
    changed = True
    while changed:
        changed = False
        for name, span in list(candidates.items()):
            if _contains_word(name, module.source, removed) and not _mentioned(tree, module, name, [*removed, span]):
                removed.append(span)
                del candidates[name]
                changed = True
    return removed[len(spans) :]


def _mentioned(tree: SourceTree, module: Module, name: str, removed: list[Span]) -> bool:
    """Return whether the remaining file, or another file that may import from it, mentions a test helper."""
    stem = module.path.removesuffix(".py").rsplit("/", 1)[-1]
    shared = stem in ("conftest", "__init__")
    if name in words(blank_spans(module.source, removed)):
        return True
    others = [path for path, vocabulary in tree.word_index.items() if name in vocabulary and path != module.path]
    return any(shared or stem in tree.word_index[path] for path in others)


def _is_imported(tree: SourceTree, path: str) -> bool:
    """Return whether another Python file may import from a test file."""
    stem = path.removesuffix(".py").rsplit("/", 1)[-1]
    importing = re.compile(rb"^[ \t]*(?:from|import)\b[^\n]*\b%b\b" % re.escape(stem).encode(), re.MULTILINE)
    others = [source for other, source in tree.python_files.items() if other != path and stem in tree.word_index[other]]
    return any(importing.search(source) for source in others)


def _helpers(module: Module, spans: list[Span]) -> dict[str, Span]:
    """Return name and span of the top-level definitions and assignments that are not tests."""
    helpers = {}
    for definition in module.definitions():
        if not definition.name.lower().startswith("test") and definition.span not in spans:
            helpers[definition.name] = definition.span
    for node in module.statements():
        name = assigned_name(module, node)
        if name and not name.startswith("pytest"):
            helpers[name] = node_span(node)
    return helpers


def _contains_word(name: str, source: bytes, spans: list[Span]) -> bool:
    return any(name in words(source[start:end]) for start, end in spans)


def _holds_tests(module: Module, removed: list[Span]) -> bool:
    """Return whether a file still defines a test or a class; one that does not leaves as a whole."""
    remaining = [item for item in module.definitions() if not any(_is_within(item.span, span) for span in removed)]
    return any(item.kind == "class" or item.name.lower().startswith("test") for item in remaining)


def _is_within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
