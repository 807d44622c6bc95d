"""Everything of the package that the hidden tests touch: the names a solution must answer to."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...models import InterfaceItem
from ..python.source import Module, signature
from ..python.source_tree import SourceTree


@dataclass
class _Seen:
    names: dict[str, str] = field(default_factory=dict)
    """Local name in the test file to the dotted name it stands for."""
    used: set[str] = field(default_factory=set)
    keywords: set[str] = field(default_factory=set)
    exceptions: set[str] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)


def interface(tree: SourceTree, targets: list[InterfaceItem], hidden: Iterable[str]) -> list[InterfaceItem]:
    """The targets first, then what the hidden tests import, call with keywords, expect to be raised or match."""
    catalogue = _Catalogue(tree)
    by_file: dict[str, set[str]] = {}
    for test in hidden:
        path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
        by_file.setdefault(path, set()).update(parts)
    items: dict[str, InterfaceItem] = {target.name: target for target in targets}
    for path, names in sorted(by_file.items()):
        source = tree.python_files.get(path)
        if source is None:
            continue
        for item in _of_file(catalogue, ast.parse(source), names, targets[0]):
            items.setdefault(item.name, item)
    rest = list(items.values())[len(targets) :]
    return [*targets, *sorted(rest, key=lambda item: (item.kind, item.name))]


def _of_file(catalogue: _Catalogue, module: ast.Module, names: set[str], target: InterfaceItem) -> list[InterfaceItem]:
    seen = _Seen(names=_imports(module, catalogue.tops))
    short = target.name.rsplit(".", 1)[-1]
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in names:
            _visit(node, seen, short)
    found = [InterfaceItem(name=name, kind="exception") for name in sorted(seen.exceptions)]
    found += [catalogue.described(name) for name in sorted({catalogue.trimmed(name) for name in seen.used})]
    found += [InterfaceItem(name=f"{short}({name}=)", kind="keyword") for name in sorted(seen.keywords)]
    found += [InterfaceItem(name=text, kind="message") for text in sorted(seen.messages)]
    return [item for item in found if item.kind != "module"]


def _imports(module: ast.Module, tops: set[str]) -> dict[str, str]:
    """Names of the package that the test file binds at module or function level."""
    found: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                if top in tops:
                    found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in tops:
            for alias in node.names:
                if alias.name != "*":
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _visit(function: ast.AST, seen: _Seen, target: str) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in seen.names:
            seen.used.add(seen.names[node.id])
        elif isinstance(node, ast.Attribute):
            dotted = _dotted(node, seen.names)
            if dotted:
                seen.used.add(dotted)
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            if called == target:
                seen.keywords |= {item.arg for item in node.keywords if item.arg}
            if called in ("raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns"):
                _expectation(node, seen)


def _expectation(call: ast.Call, seen: _Seen) -> None:
    """``pytest.raises(Error, match="text")`` and unittest's forms of it; a variable in its place says nothing."""
    for node in call.args[:1]:
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            name = ast.unparse(item)
            if isinstance(item, ast.Attribute):
                name = _dotted(item, seen.names)
            elif name in seen.names:
                name = seen.names[name]
            elif not _builtin_error(name):
                continue
            if name:
                seen.exceptions.add(name)
    texts = [item.value for item in call.keywords if item.arg == "match"]
    if ast.unparse(call.func).endswith("Regex"):
        texts += call.args[1:2]
    for text in texts:
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            seen.messages.add(text.value)


def _dotted(node: ast.Attribute, names: dict[str, str]) -> str:
    """``pkg.module.name`` for an attribute chain that starts at an imported module, else empty."""
    parts: list[str] = []
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        parts.insert(0, current.attr)
        current = current.value
    if isinstance(current, ast.Name) and current.id in names:
        return ".".join([names[current.id], *parts])
    return ""


class _Catalogue:
    """The package's modules by dotted name, and what they define."""

    def __init__(self, tree: SourceTree) -> None:
        self.modules = {tree.dotted_name(module.path): module for module in tree.modules()}
        self.tops = {name.split(".")[0] for name in self.modules}

    def trimmed(self, dotted: str) -> str:
        """``pkg.module.Name`` of ``pkg.module.Name.attribute.attribute``: what follows belongs to the object."""
        parts = dotted.split(".")
        depth = max((n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in self.modules), default=1)
        return ".".join(parts[: depth + 1])

    def described(self, dotted: str) -> InterfaceItem:
        """Kind and signature of a dotted name, as far as the sources tell; a re-export is followed by its name."""
        owner, _, short = dotted.rpartition(".")
        own = [self.modules[owner]] if owner in self.modules else []
        for module in [*own, *self.modules.values()]:
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
        is_error = any(base.endswith(("Error", "Exception", "Warning")) or _builtin_error(base) for base in bases)
        return InterfaceItem(name=dotted, kind="exception" if is_error else "class", signature=text)
    return None


def _builtin_error(name: str) -> bool:
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)
