"""The names of the package that tests use: what a solution must provide, and how it is spelled or called."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ...models import InterfaceItem
from ..python.hidden_tests import split_test_id
from ..python.source import Module, parsed, signature, words
from ..python.source_tree import SourceTree

_RAISING = ("raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns")


@dataclass
class _Usage:
    """What the tests of one file use."""

    imports: dict[str, str]  # local name in the test file to the dotted name that it stands for
    subject: str  # short name of the main target; its keyword arguments are collected
    foreign: set[str] = field(default_factory=set)  # names that the test file imports from elsewhere
    used: set[str] = field(default_factory=set)  # dotted names of the package
    keywords: set[str] = field(default_factory=set)  # keyword arguments of the subject
    exceptions: set[str] = field(default_factory=set)  # exceptions that must be raised
    messages: set[str] = field(default_factory=set)  # patterns that messages must match


def interface_of(tree: SourceTree, targets: Sequence[InterfaceItem], tests: Iterable[str]) -> list[InterfaceItem]:
    """Return what ``tests`` import, call with keywords, expect to be raised or match, without the ``targets``.

    The first target is the one whose keyword arguments are of interest.
    """
    catalogue = _Catalogue(tree)
    subject = targets[0].name.rsplit(".", 1)[-1] if targets else ""
    by_file: dict[str, set[tuple[str, ...]]] = {}
    for test in tests:
        path, parts = split_test_id(test)
        by_file.setdefault(path, set()).add(tuple(parts))
    items: dict[str, InterfaceItem] = {}
    for path, names in sorted(by_file.items()):
        source = tree.python_files.get(path)
        if source is not None:
            for item in _used_in(catalogue, parsed(source), names, subject):
                items.setdefault(item.name, item)
    for target in targets:
        items.pop(target.name, None)
    return sorted(items.values(), key=lambda item: (item.kind, item.name))


def _used_in(
    catalogue: _Catalogue, module: ast.Module, tests: set[tuple[str, ...]], subject: str
) -> list[InterfaceItem]:
    """Return what the tests of these names use."""
    usage = _Usage(_package_imports(module, catalogue.tops), subject, _foreign_names(module, catalogue.tops))
    for node in _nodes_of(module, tests):
        _collect(node, usage)
    items = [InterfaceItem(name=name, kind="exception") for name in sorted(usage.exceptions)]
    used = sorted({catalogue.trimmed(name) for name in usage.used})
    items += [catalogue.described(name) for name in used if catalogue.may_have(name)]
    items += [InterfaceItem(name=f"{subject}({name}=)", kind="keyword") for name in sorted(usage.keywords)]
    items += [InterfaceItem(name=text, kind="message") for text in sorted(usage.messages)]
    return [item for item in items if item.kind != "module"]


def _nodes_of(module: ast.Module, tests: set[tuple[str, ...]]) -> list[ast.AST]:
    """Return the functions of tests, with what their classes set up; a whole class when it inherits a test."""
    nodes: list[ast.AST] = []
    for top in module.body:
        if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef) and (top.name,) in tests:
            nodes.append(top)
        elif isinstance(top, ast.ClassDef):
            chosen = {names[-1] for names in tests if names and names[0] == top.name}
            members = {getattr(item, "name", ""): item for item in top.body}
            if chosen - members.keys():
                nodes.append(top)
            elif chosen:
                nodes += [item for item in top.body if getattr(item, "name", "") in chosen or not _is_test(item)]
    return nodes


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def _foreign_names(module: ast.Module, tops: set[str]) -> set[str]:
    """Return the names that the test file imports from elsewhere, such as ``pytest``."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {(item.asname or item.name).split(".")[0] for item in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] not in tops:
            names |= {item.asname or item.name for item in node.names}
    return names - _package_imports(module, tops).keys()


def _package_imports(module: ast.Module, tops: set[str]) -> dict[str, str]:
    """Return the names of the package that the test file imports, at module or function level."""
    imports: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                if top in tops:
                    imports[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in tops:
            for alias in node.names:
                if alias.name != "*":
                    imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return imports


def _collect(function: ast.AST, usage: _Usage) -> None:
    local_names = _bound_names(function)
    usage = replace(usage, imports={name: dotted for name, dotted in usage.imports.items() if name not in local_names})
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in usage.imports:
            usage.used.add(usage.imports[node.id])
        elif isinstance(node, ast.Attribute):
            dotted = _dotted(node, usage.imports)
            if dotted:
                usage.used.add(dotted)
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            if called == usage.subject and ast.unparse(node.func).partition(".")[0] not in usage.foreign:
                usage.keywords |= {item.arg for item in node.keywords if item.arg}
            if called in _RAISING:
                _collect_expectation(node, usage)


def _bound_names(function: ast.AST) -> set[str]:
    """Return the names that a function assigns: they hide what the file imports."""
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _collect_expectation(call: ast.Call, usage: _Usage) -> None:
    """Collect from ``pytest.raises(Error, match="text")`` and unittest's forms of it; variables are skipped."""
    for node in call.args[:1]:
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            name = ast.unparse(item)
            if isinstance(item, ast.Attribute):
                name = _dotted(item, usage.imports)
            elif name in usage.imports:
                name = usage.imports[name]
            elif not _is_builtin_error(name):
                continue
            if name:
                usage.exceptions.add(name)
    patterns = [item.value for item in call.keywords if item.arg == "match"]
    if ast.unparse(call.func).endswith("Regex"):
        patterns += call.args[1:2]
    for pattern in patterns:
        if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
            usage.messages.add(pattern.value)


def _dotted(node: ast.Attribute, imports: dict[str, str]) -> str:
    """Return ``pkg.module.name`` for an attribute chain that starts at an imported name; empty for any other."""
    parts: list[str] = []
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        parts.insert(0, current.attr)
        current = current.value
    if isinstance(current, ast.Name) and current.id in imports:
        return ".".join([imports[current.id], *parts])
    return ""


class _Catalogue:
    """The package's modules by dotted name, and what they define."""

    def __init__(self, tree: SourceTree) -> None:
        self.modules = {tree.dotted_name(module.path): module for module in tree.modules()}
        self.tops = {name.split(".")[0] for name in self.modules}

    def trimmed(self, dotted: str) -> str:
        """Return ``pkg.module.Name`` for ``pkg.module.Name.attribute``: attributes belong to the object."""
        parts = dotted.split(".")
        depth = max((n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in self.modules), default=1)
        return ".".join(parts[: depth + 1])

    def may_have(self, dotted: str) -> bool:
        """Return whether a name can exist: its module binds it, or is not known, or makes names at run time."""
        owner, _, short = dotted.rpartition(".")
        if owner not in self.modules or dotted in self.modules:
            return True
        source = self.modules[owner].source
        return short in words(source) or b"import *" in source or b"__getattr__" in source

    def described(self, dotted: str) -> InterfaceItem:
        """Return kind and signature of a dotted name, where a source defines it; a re-export is found by its name."""
        owner, _, short = dotted.rpartition(".")
        first = [self.modules[owner]] if owner in self.modules else []
        for module in [*first, *self.modules.values()]:
            item = _defined_in(module, dotted, short)
            if item is not None:
                return item
        if dotted in self.modules:
            return InterfaceItem(name=dotted, kind="module")
        return InterfaceItem(name=dotted, kind="constant" if short.isupper() else "attribute")


def _defined_in(module: Module, dotted: str, short: str) -> InterfaceItem | None:
    for definition in module.definitions():
        if definition.name != short:
            continue
        text = signature(module, definition)
        if definition.kind == "function":
            return InterfaceItem(name=dotted, kind="function", signature=text)
        bases = re.findall(r"\w+", text.partition("(")[2])
        is_error = any(base.endswith(("Error", "Exception", "Warning")) or _is_builtin_error(base) for base in bases)
        return InterfaceItem(name=dotted, kind="exception" if is_error else "class", signature=text)
    return None


def _is_builtin_error(name: str) -> bool:
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)
