"""A change taken back in the Snapshot's tree: sources as before it, and test files without the names that went."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from ....errors import Rejected
from ...base import Files
from ...python.source import SyntaxSpans, apply_edits, compile_error, items_without, parse, parse_or_empty, words
from ...python.source_tree import SOURCE_SUFFIXES, SourceTree
from ..deletion.removal.file_edits import undefined_names
from .repository import Change, Repository


@dataclass
class Reversal:
    """What the workspace has instead of the Snapshot's files."""

    exercise: Files = field(default_factory=dict)  # sources of the package
    tests: Files = field(default_factory=dict)  # test files without imports of names that are gone
    lost_names: dict[str, list[str]] = field(default_factory=dict)  # local names that each of these files lost


def take_back(repository: Repository, change: Change, tree: SourceTree) -> Reversal:
    """Return the reversal of a change. Raises Rejected with the reason why there is none."""
    merged = repository.taken_back(change)
    sources = {path: name for path, name in merged.files.items() if is_package_code(tree, path)}
    clashing = sorted(path for path in merged.conflicts if is_package_code(tree, path) or _is_lost(tree, change, path))
    if clashing:
        raise Rejected("history_conflict", f"later commits changed the same lines of {clashing[0]}")
    exercise: Files = {}
    for path, name in sorted(sources.items()):
        if (tree.root / path).is_symlink() or repository.read(repository.head, path) != _pristine(tree, path):
            raise Rejected("history_uncommitted", f"{path} differs from the commit that the source was taken from")
        exercise[path] = None if name is None else repository.blob(name)
    if not any(_changes_code(tree, path, content) for path, content in exercise.items()):
        raise Rejected("history_no_code", "nothing remains of the change but comments, docstrings and annotations")
    _check_names(tree, exercise)
    result = Reversal(exercise)
    _rewrite_tests(tree, result)
    return result


def is_package_code(tree: SourceTree, path: str) -> bool:
    """Return whether a path is code of the package and no test."""
    return path.endswith(SOURCE_SUFFIXES) and tree.is_source(path) and not tree.is_test(path)


def _is_lost(tree: SourceTree, change: Change, path: str) -> bool:
    """Return whether a conflict is about code of the change that the Snapshot has no longer at that path."""
    return path in change.lines and path.endswith(SOURCE_SUFFIXES) and not tree.is_test(path) and not _is_aside(path)


def _is_aside(path: str) -> bool:
    return path.split("/")[0] in ("docs", "doc", "examples", "benchmarks", "tools", "scripts", "setup.py")


def _pristine(tree: SourceTree, path: str) -> bytes | None:
    return tree.read(path) if (tree.root / path).is_file() else None


def _changes_code(tree: SourceTree, path: str, content: bytes | None) -> bool:
    """Return whether a file differs in more than comments, docstrings and annotations."""
    before, after = _pristine(tree, path), content
    if before is None or after is None or not path.endswith(".py"):
        return path.endswith(".py")
    try:
        return ast.dump(_Bare().visit(parse(before))) != ast.dump(_Bare().visit(parse(after)))
    except (SyntaxError, ValueError) as error:
        raise Rejected("v0_syntax", f"{path}: {error}") from error


class _Bare(ast.NodeTransformer):
    """Drops docstrings, annotations and imports for type checkers from a syntax tree."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(arg=node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return ast.Assign(targets=[node.target], value=node.value, lineno=1) if node.value else None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.dump(node.test) else self.generic_visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _function


def _check_names(tree: SourceTree, exercise: Files) -> None:
    """Check that no source still needs a name that went with the change. Raises Rejected."""
    gone: set[str] = set()
    for path, content in exercise.items():
        before = _pristine(tree, path)
        if content is not None and before is not None and path.endswith(".py"):
            missing = undefined_names(path, before, content)
            if missing:
                raise Rejected("history_later_use", f"later code of {path} needs {missing[0]}")
        gone |= defined_names(before) - defined_names(content)
    remaining: set[str] = set()
    for path in tree.python_files:
        if is_package_code(tree, path) and path not in exercise:
            remaining |= _used_names(tree.read(path))
    for content in exercise.values():
        remaining |= _used_names(content)
    defined = {name for path in tree.python_files if path not in exercise for name in defined_names(tree.read(path))}
    defined |= {name for content in exercise.values() for name in defined_names(content)}
    needed = sorted((gone - defined) & remaining)
    if needed:
        raise Rejected("history_later_use", f"later code of the package needs {needed[0]}")


@functools.lru_cache(maxsize=4096)
def defined_names(source: bytes | None) -> set[str]:
    """Return the names of functions, methods and classes that a file defines; empty for broken Python."""
    nodes = ast.walk(parse_or_empty(source or b""))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


@functools.lru_cache(maxsize=4096)
def _used_names(source: bytes | None) -> set[str]:
    try:
        nodes = list(ast.walk(parse(source or b"")))
    except (SyntaxError, ValueError):
        return words(source or b"")
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}


def _rewrite_tests(tree: SourceTree, result: Reversal) -> None:
    """Add the test files that import a missing name, without these imports. Raises Rejected when that is not enough."""
    missing = {tree.dotted_name(path): _lost_from(tree, path, content) for path, content in result.exercise.items()}
    for path, source in tree.python_files.items():
        if not tree.is_test(path):
            continue
        rewritten, names = _without_imports(source, _importing_package(tree, path), missing)
        if not names:
            continue
        problem = compile_error(path, rewritten)
        outside = undefined_outside_functions(rewritten, names)
        if problem or outside:
            raise Rejected("history_tests_entangled", f"{path} needs {outside or problem} before any test runs")
        result.tests[path] = rewritten
        result.lost_names[path] = sorted(names)


def _lost_from(tree: SourceTree, path: str, content: bytes | None) -> set[str] | None:
    """Return the names that importing from a module no longer gives; None when the module itself is gone."""
    if content is None:
        return None
    return _bound(_pristine(tree, path)) - _bound(content)


def _bound(source: bytes | None) -> set[str]:
    """Return the names that a module binds at its top level, also below conditions."""
    names: set[str] = set()
    blocks: list[ast.stmt] = list(parse(source or b"").body)
    for node in blocks:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        for name in ("body", "orelse", "finalbody"):
            blocks += getattr(node, name, [])
        for handler in getattr(node, "handlers", []):
            blocks += handler.body
        stores = (item for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))
        names |= {item.id for item in stores}
    return names


def _importing_package(tree: SourceTree, path: str) -> list[str]:
    """Return the parts of the package that relative imports of a test file start from."""
    parts = tree.dotted_name(path).split(".")
    return parts if path.endswith("__init__.py") else parts[:-1]


def _without_imports(source: bytes, package: list[str], missing: dict[str, set[str] | None]) -> tuple[bytes, set[str]]:
    """Return a test file without top-level imports of missing names, and the local names that are gone."""
    spans = SyntaxSpans(source)
    names: set[str] = set()
    edits = []
    for node in parse(source).body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        dropped = {n for n, alias in enumerate(node.names) if _is_gone(node, alias, package, missing)}
        if not dropped:
            continue
        for number in dropped:
            alias = node.names[number]
            names.add(alias.asname or alias.name.split(".")[0])
        if len(dropped) == len(node.names):
            edits.append((spans.span(node), b"pass"))
        else:
            edits += items_without(source, [spans.span(alias) for alias in node.names], dropped)
    return (apply_edits(source, edits), names) if edits else (source, names)


def _is_gone(
    node: ast.Import | ast.ImportFrom, alias: ast.alias, package: list[str], missing: dict[str, set[str] | None]
) -> bool:
    if isinstance(node, ast.Import):
        return alias.name in missing and missing[alias.name] is None
    start = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*start, *([node.module] if node.module else [])])
    if module in missing:
        names = missing[module]
        return names is None or alias.name in names
    return f"{module}.{alias.name}" in missing and missing[f"{module}.{alias.name}"] is None


def undefined_outside_functions(source: bytes, names: Iterable[str]) -> str:
    """Return one of ``names`` that a module uses before any function is called; empty when it uses none."""
    expected = set(names)
    waiting: list[ast.AST] = [parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and node.id in expected and isinstance(node.ctx, ast.Load):
            return node.id
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *(item for item in node.args.kw_defaults if item)]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return ""
