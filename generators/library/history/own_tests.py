"""The tests that came with a change, as far as they are still among the stable tests of the Snapshot."""

from __future__ import annotations

import ast

from ...python.hidden_tests import split_test_id
from ...python.source import parse
from ...python.source_tree import SourceTree
from .repository import Change, Repository


def own_tests(repository: Repository, change: Change, tree: SourceTree, stable: list[str]) -> list[str]:
    """Return the stable tests, in suite order, whose functions the change added or edited.

    Where a change edits only data or helpers of a test file, all tests of the file count.
    """
    by_file: dict[str, set[str] | None] = {}
    for path in change.lines:
        if path.endswith(".py") and tree.is_test(path) and path in tree.python_files:
            after = _functions(repository.read(change.after, path))
            before = _functions(repository.read(change.before, path))
            edited = {name for name, text in after.items() if before.get(name) != text}
            by_file[path] = edited or (None if after else set())
    chosen = []
    for test in stable:
        path, parts = split_test_id(test)
        names = by_file.get(path, set())
        if names is None or ".".join(parts) in names:
            chosen.append(test)
    return chosen


def _functions(source: bytes | None) -> dict[str, str]:
    """Return the tests of a file by qualified name, with their syntax trees as text; empty for broken Python."""
    try:
        module = parse(source or b"")
    except (SyntaxError, ValueError):
        return {}
    result: dict[str, str] = {}
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [("", module)]
    for prefix, scope in scopes:
        for node in scope.body:
            if isinstance(node, ast.ClassDef):
                scopes.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lower().startswith("test"):
                result[prefix + node.name] = ast.dump(node)
    return result
