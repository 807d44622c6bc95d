"""The statement of a deletion task, composed without a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ....models import InterfaceItem
from ...base import StatementContext, TestPolicy
from ...statements.behaviours import behaviour_lines, bullets, interface_lines, quoted
from .knobs import Mode

MAX_RESTORED = 20

_TEST_HEADINGS = {
    "hidden": "Hidden tests check, directly or through callers",
    "visible": "These tests of the workspace fail now",
    "half": "These tests fail now; half of them are in the workspace, all of them are graded",
}


@dataclass(frozen=True)
class Member:
    """A public member of a deleted class."""

    signature: str  # decorators and signature, or an assignment, on one line
    docstring: str = ""  # empty for attributes and undocumented methods


@dataclass(frozen=True)
class OwnerClass:
    """The class of a deleted method."""

    signature: str  # ``class Name(Base)``
    docstring: str  # empty when it has none
    siblings: Sequence[str]  # signatures of its other public methods


@dataclass(frozen=True)
class Entity:
    """A deleted function, method or class."""

    module: str  # dotted name of the module
    name: str  # ``name`` or ``Class.name``
    kind: Literal["function", "method", "class"]  # what it is
    signature: str  # one line per definition, decorators on lines before it where they matter
    docstring: str  # empty when it has none, or when it is still in the workspace
    raises: Sequence[str]  # names of exceptions that it raises itself
    owner: OwnerClass | None = None  # its class, for a method
    members: Sequence[Member] = ()  # its public members, for a class

    @property
    def dotted(self) -> str:
        """Return the import path and name."""
        return f"{self.module}.{self.name}"

    @property
    def documented(self) -> bool:
        """Return whether a docstring describes it or a member of it."""
        return bool(self.docstring or any(item.docstring for item in self.members))

    def interface_item(self) -> InterfaceItem:
        """Return the name that a solution must provide."""
        return InterfaceItem(name=self.dotted, kind=self.kind, signature=self.signature)


@dataclass(frozen=True)
class ReplacedCaller:
    """A statement that used the deleted name and raises NotImplementedError in the workspace."""

    path: str  # the file
    where: str  # the function: ``name`` or ``Class.name``
    text: str  # the lines as they were


@dataclass(frozen=True)
class DeletionStatement:
    """Everything that is known about a deletion before its tests are run."""

    target: Entity  # what has to be written again
    mode: Mode  # whether only the body is missing, or the name too
    policy: TestPolicy  # which failing tests the workspace lacks
    call_sites: Sequence[str]  # lines of the workspace that call the target
    removed_helpers: int  # private definitions that were removed because only the target needed them
    removed_imports: int  # imported names that were removed because only the target needed them
    also_removed: Sequence[Entity] = ()  # public definitions that were removed because they are built on the target
    names_to_restore: Sequence[str] = ()  # exports, aliases and entries of tables, as list items
    callers: Sequence[ReplacedCaller] = ()  # statements that were replaced because they use the target

    def render(self, context: StatementContext) -> str:
        """Return signature, documentation, exceptions, behaviours, names to restore, interface and call sites."""
        where = f"`{self.target.dotted}`"
        paragraphs = [
            f"# Implement {where}",
            f"In this code base, the {context.package} package, {self._state(where)}{self._removed_with_it()}",
        ]
        paragraphs += _entity_paragraphs(self.target, level="##")
        for item in self.also_removed:
            paragraphs.append(f"## Also missing: `{item.dotted}`")
            paragraphs += _entity_paragraphs(item, level="###")
        behaviours = behaviour_lines(context.failing)
        if behaviours:
            paragraphs.append(f"## Behaviour\n\n{_TEST_HEADINGS[self.policy]}:\n\n" + bullets(behaviours))
        paragraphs += self._restored()
        names = interface_lines(context.interface)
        if names:
            paragraphs.append("## Interface\n\nThe hidden tests also rely on:\n\n" + "\n".join(names))
        if self.call_sites:
            paragraphs.append("## Where it is used\n\n" + bullets(f"`{site}`" for site in self.call_sites))
        return "\n\n".join(paragraphs) + "\n"

    def _state(self, where: str) -> str:
        """Return what the workspace has in the target's place, and what to do."""
        kind = self.target.kind
        if self.mode == "remove":
            names = ", with every name that referred to it" if self.names_to_restore or self.callers else ""
            return (
                f"the {kind} {where} has been removed{names}. Everything else works. Write it again in "
                f"`{self.target.module}`, so that it behaves as described here."
            )
        if kind == "class":
            return (
                f"the methods of the class {where} have no body: calling one raises `NotImplementedError`. Everything "
                "else works. Write them so that the class behaves as described here."
            )
        return (
            f"the body of {where} is missing: calling it raises `NotImplementedError`. Everything else works. Write "
            f"the {kind} so that it behaves as described here."
        )

    def _removed_with_it(self) -> str:
        """Return a sentence about helpers and imports that are missing too."""
        parts = ["private helpers"] * bool(self.removed_helpers) + ["imports"] * bool(self.removed_imports)
        if not parts:
            return ""
        text = " and ".join(parts)
        return f" {text[0].upper()}{text[1:]} that only it needed are gone too; write what you need, in any shape."

    def _restored(self) -> list[str]:
        """Return the paragraphs on names and statements that must be restored besides the definition."""
        paragraphs = []
        if self.names_to_restore:
            lines = list(self.names_to_restore[:MAX_RESTORED])
            more = len(self.names_to_restore) - MAX_RESTORED
            lines += [f"and {more} more of the same kind"] if more > 0 else []
            paragraphs.append(
                "## Names to restore\n\nThese went with it and have to be there again:\n\n" + bullets(lines)
            )
        if self.callers:
            parts = [f"In `{item.path}`, `{item.where}`:\n\n```python\n{item.text}\n```" for item in self.callers]
            paragraphs.append(
                "## Callers to restore\n\nThese statements used it and raise `NotImplementedError` now. They were:\n\n"
                + "\n\n".join(parts)
            )
        return paragraphs


def _entity_paragraphs(entity: Entity, *, level: str) -> list[str]:
    """Return signature, docstring, members or class, and exceptions; ``level`` starts the headings."""
    paragraphs = [f"```python\n{entity.signature}\n```"]
    if entity.docstring.strip():
        paragraphs.append(f"{level} Documentation\n\n{quoted(entity.docstring.strip())}")
    if entity.members:
        paragraphs.append(f"{level} Members\n\n" + "\n".join(map(_member_text, entity.members)))
    if entity.owner:
        paragraphs.append(_owner_text(entity.owner, level))
    if entity.raises:
        names = ", ".join(f"`{name}`" for name in entity.raises)
        paragraphs.append(f"{level} Exceptions\n\nIt raises {names} itself.")
    return paragraphs


def _member_text(member: Member) -> str:
    """Return one list item, with the docstring indented below."""
    text = "\n".join(f"  {line}".rstrip() for line in member.docstring.strip().splitlines())
    return f"- `{member.signature}`" + (f"\n\n{text}\n" if text else "")


def _owner_text(owner: OwnerClass, level: str) -> str:
    """Return the paragraphs on the class of a method, which say what the method is for."""
    parts = [f"{level} Its class\n\n```python\n{owner.signature}\n```"]
    if owner.docstring.strip():
        parts.append(quoted(owner.docstring.strip()))
    if owner.siblings:
        parts.append("It also has:\n\n" + bullets(f"`{item}`" for item in owner.siblings))
    return "\n\n".join(parts)
