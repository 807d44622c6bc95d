"""The statement of a deletion task, composed without a language model."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ....models import InterfaceItem
from ...base import StatementContext, TestPolicy
from ...statements.behaviours import behaviour_lines, bullets, grouped_lines, interface_lines, needed_items, quoted
from ...statements.examples import examples_text, fewer
from ...statements.styles import Style, StyleChoice, drawn_style
from .documentation import lost_parts
from .knobs import Mode
from .wording import behaviour_lead, lead_of, opening_of, title_of

MAX_RESTORED = 20
MAX_TERSE = 3
"""Most examples of a terse statement."""


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
    documents: Sequence[str] = ()  # documents of the workspace that lost examples or entries
    style: StyleChoice = "instruction"  # the style, or that the seed chooses it
    seed: int = 0  # the generator's seed

    def render(self, context: StatementContext) -> str:
        """Return signature, documentation, exceptions, behaviours, names to restore, interface and call sites."""
        style, draw = drawn_style(self.style, self.seed, self.target.dotted)
        where, kind = f"`{self.target.dotted}`", self.target.kind
        title = title_of(style, self.mode, kind, where, draw)
        facts = {"where": where, "package": context.package, "module": self.target.module}
        opening = opening_of(style, self.mode, kind, draw, facts)
        paragraphs = [f"# {title}"] if title else []
        names = " Every name that referred to it is gone too." if self.names_to_restore or self.callers else ""
        paragraphs.append(opening + names + self._removed_with_it() + self._other_names(context))
        paragraphs += self._entity(self.target, style, draw)
        for item in self.also_removed:
            paragraphs.append(f"## Also missing: `{item.dotted}`")
            is_known = self.target.owner is not None and item.owner == self.target.owner
            paragraphs += self._entity(replace(item, owner=None) if is_known else item, style, draw)
        behaviours = behaviour_lines(context.failing) if style == "instruction" else grouped_lines(context.failing)
        if behaviours:
            paragraphs.append(f"{behaviour_lead(style, self.policy, draw)}\n\n{bullets(behaviours)}")
        most = MAX_TERSE if style == "terse" else len(context.examples)
        examples = fewer(context.examples, most, self.target.name.rpartition(".")[2])
        if examples:
            section = "examples" if len(examples) > 1 else "example"
            paragraphs.append(f"{lead_of(style, section, draw)}\n\n{examples_text(examples)}")
        paragraphs += self._restored(style, draw)
        if self.call_sites and style != "terse":
            paragraphs.append(lead_of(style, "used", draw) + "\n\n" + bullets(f"`{site}`" for site in self.call_sites))
        if self.documents and style != "terse":
            heading = "## Documents\n\n" if style == "instruction" else ""
            paragraphs.append(heading + lost_parts(self.documents))
        lines = interface_lines(needed_items(self._interface(context), "\n".join(paragraphs)))
        if lines:
            paragraphs.append(lead_of(style, "interface", draw) + "\n\n" + "\n".join(lines))
        return "\n\n".join(paragraphs) + "\n"

    def _is_other_name(self, item: InterfaceItem) -> bool:
        """Return whether an item is the target itself under a name of another module."""
        target = self.target
        is_same = item.name.rpartition(".")[2] == target.name and item.signature in target.signature
        return is_same and item.kind in ("function", "class") and bool(item.signature)

    def _other_names(self, context: StatementContext) -> str:
        """Return a sentence about the names under which tests use the target."""
        names = [f"`{item.name}`" for item in context.interface if self._is_other_name(item)]
        return f" Tests use it as {' and '.join(names)}." if names else ""

    def _interface(self, context: StatementContext) -> list[InterfaceItem]:
        """Return the names that failing tests use, without other names of the target."""
        return [item for item in context.interface if not self._is_other_name(item)]

    def _removed_with_it(self) -> str:
        """Return a sentence about helpers and imports that are missing too."""
        parts = ["private helpers"] * bool(self.removed_helpers) + ["imports"] * bool(self.removed_imports)
        if not parts:
            return ""
        text = " and ".join(parts)
        return f" {text[0].upper()}{text[1:]} that only it needed are gone too; write what you need, in any shape."

    def _restored(self, style: Style, draw: random.Random) -> list[str]:
        """Return the paragraphs on names and statements that must be restored besides the definition."""
        paragraphs = []
        if self.names_to_restore:
            lines = list(self.names_to_restore[:MAX_RESTORED])
            more = len(self.names_to_restore) - MAX_RESTORED
            lines += [f"and {more} more of the same kind"] if more > 0 else []
            paragraphs.append(f"{lead_of(style, 'names', draw)}\n\n{bullets(lines)}")
        if self.callers:
            parts = [f"In `{item.path}`, `{item.where}`:\n\n```python\n{item.text}\n```" for item in self.callers]
            paragraphs.append(lead_of(style, "callers", draw) + "\n\n" + "\n\n".join(parts))
        return paragraphs

    def _entity(self, entity: Entity, style: Style, draw: random.Random) -> list[str]:
        """Return signature, docstring, members or class, and exceptions."""
        paragraphs = [f"```python\n{entity.signature}\n```"]
        if entity.docstring.strip():
            paragraphs.append(f"{lead_of(style, 'documentation', draw)}\n\n{quoted(entity.docstring.strip())}")
        if entity.members:
            members = "\n".join(map(_member_text, entity.members))
            paragraphs.append(f"{lead_of(style, 'members', draw)}\n\n{members}")
        if entity.owner and (style != "terse" or not entity.documented):
            paragraphs.append(f"{lead_of(style, 'owner', draw)}\n\n{self._owner_text(entity)}")
        if entity.raises:
            names = ", ".join(f"`{name}`" for name in entity.raises)
            paragraphs.append(f"It raises {names}.")
        return paragraphs

    def _owner_text(self, entity: Entity) -> str:
        """Return what is known about the class of a method, which says what the method is for."""
        assert entity.owner is not None
        parts = [f"```python\n{entity.owner.signature}\n```"]
        if entity.owner.docstring.strip():
            parts.append(quoted(entity.owner.docstring.strip()))
        owner = entity.dotted.rpartition(".")[0]
        gone = {item.dotted for item in (self.target, *self.also_removed)}
        present = [item for item in entity.owner.siblings if f"{owner}.{_defined_name(item)}" not in gone]
        if present:
            parts.append("It also has:\n\n" + bullets(f"`{item}`" for item in present))
        return "\n\n".join(parts)


def _defined_name(signature: str) -> str:
    match = re.search(r"\b(?:def|class) (\w+)", signature)
    return match[1] if match else ""


def _member_text(member: Member) -> str:
    """Return one list item, with the docstring indented below."""
    text = "\n".join(f"  {line}".rstrip() for line in member.docstring.strip().splitlines())
    return f"- `{member.signature}`" + (f"\n\n{text}\n" if text else "")
