"""Public definitions that a reversal removes, or whose signature or documentation it changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ....models import InterfaceItem
from ...base import Files
from ...python.source import Definition, Module, docstring, signature
from ...python.source_tree import SourceTree

MAX_DOCSTRING = 60
"""Most lines of a docstring that a statement quotes."""


@dataclass(frozen=True)
class PublicName:
    """One public function, class or method as the solution has it."""

    dotted: str  # import path and name
    kind: Literal["function", "method", "class"]  # what it is
    signature: str  # its head
    docstring: str  # empty when the workspace has the same one
    missing: bool  # whether the workspace lacks the name

    def interface_item(self) -> InterfaceItem:
        """Return the name that a solution must provide."""
        return InterfaceItem(name=self.dotted, kind=self.kind, signature=self.signature)


def changed_names(tree: SourceTree, exercise: Files) -> list[PublicName]:
    """Return the public definitions that the workspace lacks or has with another signature or docstring."""
    names = []
    for path, content in sorted(exercise.items()):
        module = tree.dotted_name(path)
        private = any(part.startswith("_") for part in module.split("."))
        if private or not path.endswith(".py") or not (tree.root / path).is_file():
            continue
        before = list(_public(Module(path, content or b"")))
        present = {name for name, _, _, _ in before}
        heads = {(name, head) for name, _, head, _ in before}
        texts = {(name, text) for name, _, _, text in before}
        for name, kind, head, text in _public(Module(path, tree.read(path))):
            documented = bool(text) and (name, text) not in texts
            if documented or (name, head) not in heads:
                shown = "\n".join(text.splitlines()[:MAX_DOCSTRING]) if documented else ""
                names.append(PublicName(f"{module}.{name}", kind, head, shown, name not in present))
    return names


def _public(module: Module) -> Iterator[tuple[str, Literal["function", "method", "class"], str, str]]:
    """Yield name, kind, signature and docstring of public definitions, overloads included."""
    for item in module.definitions():
        if item.name.startswith("_"):
            continue
        yield item.name, item.kind, signature(module, item), _docstring(module, item)
        for member in module.definitions(item.body) if item.kind == "class" else []:
            if not member.name.startswith("_") or member.name == "__init__":
                name = f"{item.name}.{member.name}"
                yield name, "method", signature(module, member), _docstring(module, member)


def _docstring(module: Module, definition: Definition) -> str:
    try:
        return docstring(module, definition)
    except (SyntaxError, ValueError):  # a bytes or formatted literal, which documents nothing
        return ""
