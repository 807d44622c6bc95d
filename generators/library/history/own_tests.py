"""The tests that came with a change, as far as they are still among the stable tests of the Snapshot."""

from __future__ import annotations

import ast
import textwrap

from ...python.hidden_tests import split_test_id
from ...python.source import Module, line_span, parse_or_empty
from ...python.source_tree import SourceTree
from .repository import Change, Repository

MAX_DECORATED = 40
"""Most lines of a test that is quoted with its decorators, which may hold very many cases."""


def own_tests(repository: Repository, change: Change, tree: SourceTree, stable: list[str]) -> list[str]:
    """Return the stable tests, in suite order, whose functions the change added or edited.

    Where a change edits only data or helpers of a test file, all tests of the file count. Of a test file that has gone
    since, those count whose function is found in one other file.
    """
    by_file: dict[str, set[str] | None] = {}
    moved: set[str] = set()
    for path in change.lines:
        if path.endswith(".py") and tree.is_test(path):
            after = _functions(repository.read(change.after, path))
            before = _functions(repository.read(change.before, path))
            edited = {name for name, text in after.items() if before.get(name) != text}
            if path in tree.python_files:
                by_file[path] = edited or (None if after else set())
            else:
                moved |= {name.rpartition(".")[2] for name in edited}
    homes: dict[str, set[str]] = {}
    for test in stable:
        path, parts = split_test_id(test)
        homes.setdefault(parts[-1], set()).add(path)
    chosen = []
    for test in stable:
        path, parts = split_test_id(test)
        names = by_file.get(path, set())
        is_moved = parts[-1] in moved and len(homes[parts[-1]]) == 1
        if names is None or ".".join(parts) in names or is_moved:
            chosen.append(test)
    return chosen


def test_sources(tests: list[str], tree: SourceTree) -> dict[str, str]:
    """Return the source of each test, with its decorators; a test that cannot be found is left out."""
    by_file: dict[str, dict[str, str]] = {}
    sources: dict[str, str] = {}
    for test in tests:
        path, parts = split_test_id(test)
        if path not in by_file:
            by_file[path] = _texts(tree.python_files.get(path, b""))
        text = by_file[path].get(".".join(parts), "")
        if text:
            sources[test] = text
    return sources


def _texts(source: bytes) -> dict[str, str]:
    module = Module("", source)
    result: dict[str, str] = {}
    for item in module.definitions():
        inner = [(f"{item.name}.", member) for member in module.definitions(item.body)] if item.kind == "class" else []
        for prefix, definition in [("", item), *inner]:
            start, end = line_span(source, definition.span)
            if source[start:end].count(b"\n") > MAX_DECORATED:
                start, end = line_span(source, (definition.node.start_byte, definition.node.end_byte))
            result[prefix + definition.name] = textwrap.dedent(source[start:end].decode("utf-8", "replace")).rstrip()
    return result


def _functions(source: bytes | None) -> dict[str, str]:
    """Return the tests of a file by qualified name, with their syntax trees as text; empty for broken Python."""
    result: dict[str, str] = {}
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [("", parse_or_empty(source or b""))]
    for prefix, scope in scopes:
        for node in scope.body:
            if isinstance(node, ast.ClassDef):
                scopes.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lower().startswith("test"):
                result[prefix + node.name] = ast.dump(node)
    return result
