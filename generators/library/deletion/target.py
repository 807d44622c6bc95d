"""What a deletion is about: one function, one method with its twins, or one class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...python.source import Definition, Edit, Module, Span, docstring, signature
from ...python.source_tree import SourceTree
from .bodies import body_edits, body_span, code_lines, decorators, is_empty, raised_names, trivial_bodies
from .documentation import redact_docstring
from .knobs import Mode
from .statement import Entity, Member, OwnerClass

MAX_SIBLINGS = 40


@dataclass(frozen=True)
class Target:
    """The definitions of one name, and how they are cut out of their module."""

    module: Module  # the file
    kind: Literal["function", "method", "class"]  # what the name stands for
    definitions: tuple[Definition, ...]  # all of one name: overloads, a property with its setter
    owner: Definition | None = None  # the class of a method

    @property
    def short(self) -> str:
        """Return the name without its class."""
        return self.definitions[0].name

    @property
    def name(self) -> str:
        """Return ``name`` or ``Class.name``."""
        return f"{self.owner.name}.{self.short}" if self.owner else self.short

    @property
    def entity(self) -> str:
        """Return ``path/module.py::Class.name``, as the test map has it."""
        return f"{self.module.path}::{self.name}"

    def covers(self, key: str) -> bool:
        """Return whether a function of the test map belongs to the target."""
        return key == self.entity or (self.kind == "class" and key.startswith(f"{self.entity}."))

    def functions(self) -> Iterator[Definition]:
        """Yield the functions that lose their bodies in mode ``stub``: not those that only declare or are empty."""
        candidates = self.definitions
        if self.kind == "class":
            members = self.module.definitions(self.definitions[0].body)
            candidates = tuple(item for item in members if item.kind == "function")
        for item in candidates:
            if not is_empty(self.module, item) and not _declares(self.module, item):
                yield item

    def lines(self) -> int:
        """Return the number of deleted lines of code, without docstrings and comments."""
        return sum(code_lines(self.module, item) for item in self.functions())

    def body_spans(self) -> list[Span]:
        """Return what mode ``stub`` takes out of the file."""
        return [body_span(self.module, item) for item in self.functions()]

    def with_bodies(self, text: str, *, redact: bool) -> list[Edit]:
        """Return the edits that give every function of the target the body ``text``."""
        return [edit for item in self.functions() for edit in body_edits(self.module, item, text, redact=redact)]

    def probes(self) -> dict[str, list[Edit]]:
        """Return trivial solutions by name; those of a class use the same kind of body for each of its methods."""
        bodies: dict[str, dict[Span, str]] = {}
        for item in self.functions():
            for name, text in trivial_bodies(self.module, item, method=self.kind != "function").items():
                bodies.setdefault(name, {})[item.span] = text
        return {
            name: [
                edit
                for item in self.functions()
                for edit in body_edits(self.module, item, texts.get(item.span, "pass"), redact=False)
            ]
            for name, texts in bodies.items()
        }

    def description(self, tree: SourceTree, *, redact: bool, mode: Mode) -> Entity:
        """Return what a statement says about the target: its place, its signature, its documentation."""
        text = docstring(self.module, self.definitions[0])
        if self.kind == "class" and mode == "stub":
            text = ""  # the workspace still has it
        raises: dict[str, None] = {}
        for item in self.definitions:
            raises |= dict.fromkeys(raised_names(self.module, item))
        return Entity(
            module=tree.dotted_name(self.module.path),
            name=self.name,
            kind=self.kind,
            signature="\n".join(self._signature(item, mode) for item in self.definitions),
            docstring=redact_docstring(text) if redact else text,
            raises=list(raises),
            owner=self._owner_class(self.owner, redact) if self.owner else None,
            members=self._members(redact) if self.kind == "class" else (),
        )

    def _signature(self, item: Definition, mode: Mode) -> str:
        """Return the signature, with decorators where they change how it is called or are deleted too."""
        marks = decorators(self.module, item) if self.kind == "method" or mode == "remove" else []
        return "\n".join([*(f"@{mark}" for mark in marks), signature(self.module, item)])

    def _docstring(self, item: Definition, redact: bool) -> str:
        text = docstring(self.module, item)
        return inspect.cleandoc(redact_docstring(text) if redact else text)

    def _owner_class(self, owner: Definition, redact: bool) -> OwnerClass:
        """Return declaration, docstring and other public methods of the class of a method."""
        siblings = [item for item in self.module.definitions(owner.body) if item.name != self.short]
        public = [signature(self.module, item) for item in siblings if not re.match(r"_[^_]", item.name)]
        siblings_once = list(dict.fromkeys(public))[:MAX_SIBLINGS]
        return OwnerClass(signature(self.module, owner), self._docstring(owner, redact), siblings_once)

    def _members(self, redact: bool) -> list[Member]:
        """Return the public interface of a class: its attributes, then its methods with their docstrings."""
        members = []
        body = self.definitions[0].body
        for node in body.named_children:
            child = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
            if child is not None and child.type in ("assignment", "identifier"):
                target = child.child_by_field_name("left") or child
                if re.match(r"[^_]|__", self.module.text(target)) and self.module.text(target) != "__slots__":
                    members.append(Member(" ".join(self.module.text(child).split())[:200]))
        for item in self.module.definitions(body):
            if item.kind == "function" and not re.match(r"_[^_]", item.name):
                marks = "".join(f"@{mark} " for mark in decorators(self.module, item))
                members.append(Member(marks + signature(self.module, item), self._docstring(item, redact)))
        return members


def _declares(module: Module, definition: Definition) -> bool:
    """Return whether a function is an overload or an abstract method, which has no body to write."""
    names = {mark.split("(")[0].rsplit(".", 1)[-1] for mark in decorators(module, definition)}
    return bool(names & {"overload", "abstractmethod", "abstractproperty"})
