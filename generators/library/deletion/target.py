"""What a deletion is about: one function, one method with its twins, or one class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...python.source import Definition, Module, Span, docstring, signature, with_leading_comments
from ...python.source_tree import SourceTree
from .bodies import body_edits, body_span, code_lines, decorators, is_stub, raised, trivial_bodies
from .documentation import redact_docstring
from .edits import Edit

MAX_SIBLINGS = 40


@dataclass(frozen=True)
class Target:
    """``definitions`` share one name: overloads, or a property with its setter and deleter. ``owner``: their class."""

    module: Module
    kind: Literal["function", "method", "class"]
    definitions: tuple[Definition, ...]
    owner: Definition | None = None

    @property
    def short(self) -> str:
        return self.definitions[0].name

    @property
    def name(self) -> str:
        """``name``, or ``Class.name``."""
        return f"{self.owner.name}.{self.short}" if self.owner else self.short

    @property
    def entity(self) -> str:
        return f"{self.module.path}::{self.name}"

    def covers(self, key: str) -> bool:
        """Whether a function of the test map belongs to the target."""
        return key == self.entity or (self.kind == "class" and key.startswith(f"{self.entity}."))

    def functions(self) -> Iterator[Definition]:
        """The functions whose bodies go in ``stub`` mode; those without one (overloads, abstract ones) stay."""
        found = self.definitions
        if self.kind == "class":
            found = tuple(item for item in self.module.definitions(self.definitions[0].body) if item.kind == "function")
        for item in found:
            if not is_stub(self.module, item) and not _declares(self.module, item):
                yield item

    def lines(self) -> int:
        """Lines of code that go, docstrings and comments left out."""
        return sum(code_lines(self.module, item) for item in self.functions())

    def spans(self, mode: str) -> list[Span]:
        """What the edit takes out of the file."""
        if mode == "stub":
            return [body_span(self.module, item) for item in self.functions()]
        return [with_leading_comments(self.module.source, item.span) for item in self.definitions]

    def with_bodies(self, text: str, *, redact: bool) -> list[Edit]:
        """Every function of the target with the same body."""
        edits: list[Edit] = []
        for item in self.functions():
            edits += body_edits(self.module, item, text, redact=redact)
        return edits

    def probes(self) -> dict[str, list[Edit]]:
        """Trivial solutions; those of a class use the same kind of body for each of its methods."""
        bodies: dict[str, dict[Span, str]] = {}
        for item in self.functions():
            for name, text in trivial_bodies(self.module, item, method=self.kind != "function").items():
                bodies.setdefault(name, {})[item.span] = text
        found: dict[str, list[Edit]] = {}
        for name, texts in bodies.items():
            found[name] = []
            for item in self.functions():
                found[name] += body_edits(self.module, item, texts.get(item.span, "pass"), redact=False)
        return found

    def facts(self, tree: SourceTree, *, redact: bool, mode: str) -> dict[str, Any]:
        """What a statement says of the target: where it is, how it is called, what is documented of it."""
        text = docstring(self.module, self.definitions[0])
        if self.kind == "class" and mode == "stub":
            text = ""  # it stays where it is
        raises: dict[str, None] = {}
        for item in self.definitions:
            raises |= dict.fromkeys(raised(self.module, item))
        return {
            "module": tree.dotted_name(self.module.path),
            "name": self.name,
            "kind": self.kind,
            "signature": "\n".join(self._signature(item, mode) for item in self.definitions),
            "docstring": redact_docstring(text) if redact else text,
            "raises": list(raises),
            **({"owner": self._owner(redact)} if self.owner else {}),
            **({"members": self._members(redact)} if self.kind == "class" else {}),
        }

    def _signature(self, item: Definition, mode: str) -> str:
        """With its decorators where they say how it is called, or where they are gone too."""
        marks = decorators(self.module, item) if self.kind == "method" or mode == "remove" else []
        return "\n".join([*(f"@{mark}" for mark in marks), signature(self.module, item)])

    def _owner(self, redact: bool) -> dict[str, Any]:
        """The class of a method: how it is declared, its docstring, its other public methods."""
        assert self.owner is not None
        text = docstring(self.module, self.owner)
        siblings = [item for item in self.module.definitions(self.owner.body) if item.name != self.short]
        public = [signature(self.module, item) for item in siblings if not re.match(r"_[^_]", item.name)]
        return {
            "signature": signature(self.module, self.owner),
            "docstring": inspect.cleandoc(redact_docstring(text) if redact else text),
            "siblings": list(dict.fromkeys(public))[:MAX_SIBLINGS],
        }

    def _members(self, redact: bool) -> list[dict[str, str]]:
        """A class's public interface: methods with their docstrings, and its class attributes."""
        found = []
        body = self.definitions[0].body
        for node in body.named_children:
            child = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
            if child is not None and child.type in ("assignment", "identifier"):
                target = child.child_by_field_name("left") or child
                if re.match(r"[^_]|__", self.module.text(target)):
                    text = " ".join(self.module.text(child).split())
                    found.append({"signature": text[:200], "docstring": ""})
        for item in self.module.definitions(body):
            if item.kind != "function" or re.match(r"_[^_]", item.name):
                continue
            marks = "".join(f"@{mark} " for mark in decorators(self.module, item))
            text = docstring(self.module, item)
            found.append(
                {
                    "signature": marks + signature(self.module, item),
                    "docstring": inspect.cleandoc(redact_docstring(text) if redact else text),
                }
            )
        return found


def _declares(module: Module, definition: Definition) -> bool:
    """An overload or an abstract method: a declaration without anything to write."""
    names = {mark.split("(")[0].rsplit(".", 1)[-1] for mark in decorators(module, definition)}
    return bool(names & {"overload", "abstractmethod", "abstractproperty"})
