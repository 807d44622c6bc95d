"""Impact of tests: which function bodies each test runs, from the lines that it covered."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


def trace_roots(roots: Iterable[str]) -> list[str]:
    """Return the folders to trace: a package's own, or the one that contains a single module."""
    return sorted({root.rpartition("/")[0] or "." if root.endswith(".py") else root for root in roots})


def source_files(tree: Path, roots: Iterable[str]) -> Iterator[str]:
    """Yield the packages' Python files, tree-relative, tests inside a package included."""
    for root in sorted(set(roots)):
        path = tree / root
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        yield from (file.relative_to(tree).as_posix() for file in files)


@dataclass(frozen=True)
class Body:
    """Lines of one function's body without its docstring; ``on_def``: the body is on the line of its ``def``."""

    lines: range
    on_def: bool


def entities(source: bytes) -> dict[str, list[Body]]:
    """Return the bodies of each function and method, by qualified name.

    The line of ``def`` runs at import and proves nothing. A name defined more than once (overloads, property setters,
    branches) has a body for each definition. Functions inside functions belong to the outer one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    bodies: dict[str, list[Body]] = {}

    def visit(nodes: Iterable[ast.AST], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                bodies.setdefault(prefix + node.name, []).append(_body(node))
            elif isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ExceptHandler):
                visit(ast.iter_child_nodes(node), prefix)

    visit(module.body, "")
    return bodies


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Body:
    body = node.body
    value = body[0].value if isinstance(body[0], ast.Expr) else None
    has_docstring = isinstance(value, ast.Constant) and isinstance(value.value, str)
    first = body[1] if has_docstring and len(body) > 1 else body[0]
    return Body(range(first.lineno, (node.end_lineno or first.lineno) + 1), first.lineno == node.lineno)


def impact(
    tree: Path,
    paths: Sequence[str],
    contexts: Mapping[str, Mapping[str, Sequence[int]]],
    at_import: Mapping[str, Sequence[int]],
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the tests that run each entity's body, in the order of ``contexts``, and the entities run outside tests.

    ``contexts`` maps test to file to lines; ``at_import`` has the lines that run at import and collection.
    """
    tests_of: dict[str, list[str]] = {}
    outside: list[str] = []
    order = {test: number for number, test in enumerate(contexts)}
    for path in paths:
        by_line: dict[int, set[str]] = {}
        for test, files in contexts.items():
            for line in files.get(path, ()):
                by_line.setdefault(line, set()).add(test)
        loaded = set(at_import.get(path, ()))
        for name, bodies in entities((tree / path).read_bytes()).items():
            lines = {line for body in bodies for line in body.lines}
            if tests := set().union(*(by_line.get(line, ()) for line in lines)):
                tests_of[f"{path}::{name}"] = sorted(tests, key=order.__getitem__)
            if any(line in loaded for body in bodies if not body.on_def for line in body.lines):
                outside.append(f"{path}::{name}")
    return tests_of, outside
