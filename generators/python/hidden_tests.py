"""Which parts of the test files leave the workspace, and come back at grading.

A hidden test is cut out by its span; with it go the test helpers, constants and fixtures that nothing else mentions,
since they hold the expected answers. What cannot be located leaves with its class, or with its whole file.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..base import Files
from .source import Definition, Module, Span, compiles, delete_spans, with_leading_comments, words
from .source_tree import SourceTree


def test_file(test: str) -> str:
    return test.split("::", 1)[0]


def hide(
    tree: SourceTree,
    hidden: Iterable[str],
    rewritten: Files | None = None,
    missing: Mapping[str, list[str]] | None = None,
) -> Files:
    """Test files as the workspace shows them; ``None`` for one that is hidden whole. Unchanged files are left out.

    ``rewritten`` are test files that have lost names which the exercise removes, ``missing`` the names. What in them
    still says such a name leaves too, tests that pass all the same included: it would show what is gone.
    """
    by_file: dict[str, list[list[str]]] = defaultdict(list)
    for test in hidden:
        path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
        if parts not in by_file[path]:
            by_file[path].append(parts)
    shown: Files = {}
    for path in sorted({*by_file, *(rewritten or {})}):
        source = (rewritten or {}).get(path, tree.python_files.get(path))
        if source is None or not path.endswith(".py"):
            shown[path] = None
        else:
            shown[path] = _without(tree, path, source, by_file[path], set((missing or {}).get(path, [])))
    return shown


def names_target(tree: SourceTree, test: str, name: str) -> bool:
    """Whether the test's own code says ``name``: it is about the entity, not merely affected by it."""
    path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
    if path not in tree.python_files or not parts:
        return False
    module = Module(path, tree.python_files[path])
    spans = _spans(module, [parts])
    return name in parts[-1] or (spans is not None and _word_in(name, module.source, spans))


def _without(tree: SourceTree, path: str, source: bytes, names: list[list[str]], missing: set[str]) -> bytes | None:
    module = Module(path, source)
    known = _known(Module(path, tree.python_files[path])) if source != tree.python_files[path] else set()
    still_there = _known(module)
    spans = _spans(module, [parts for parts in names if parts[0] in still_there or parts[0] not in known])
    if module.broken or spans is None:
        return None
    spans += _saying(module, missing, spans)
    spans += _unused_after(tree, module, spans)
    left = delete_spans(module.source, [with_leading_comments(module.source, span) for span in spans])
    if compiles(path, left):
        return None
    return left if _holds_tests(path, left) or not names or not _holds_tests(path, source) else None


def _known(module: Module) -> set[str]:
    return {item.name for item in module.definitions()}


def _saying(module: Module, missing: set[str], spans: list[Span]) -> list[Span]:
    """Tests and helpers that still use a missing name: functions, methods, classes left with nothing else."""
    found: list[Span] = []
    places = _uses(module.source, missing) if missing else []
    for definition in module.definitions() if places else []:
        members = module.definitions(definition.body) if definition.kind == "class" else []
        guilty = [item for item in members if _holds(item.span, places)]
        rest = [item for item in members if item not in guilty and item.span not in spans]
        if guilty and any(item.name.startswith("test") for item in rest):
            found += [item.span for item in guilty]
        elif _holds(definition.span, places):
            found.append(definition.span)
    return [span for span in found if span not in spans]


def _uses(source: bytes, names: set[str]) -> list[int]:
    """Where ``names`` stand as names, in bytes; the same words in strings or as attributes do not count."""
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name) and node.id in names]
    return [starts[node.lineno - 1] + node.col_offset for node in nodes]


def _holds(span: Span, places: list[int]) -> bool:
    return any(span[0] <= place < span[1] for place in places)


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
    source = bytearray(module.source)
    for start, end in gone:
        source[start:end] = b"\n" * (end - start)
    if name in words(bytes(source)):
        return True
    others = [path for path, known in tree.word_index.items() if name in known and path != module.path]
    return any(shared or stem in tree.word_index[path] for path in others)


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
