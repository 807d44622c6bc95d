"""The statement of a task that asks for a whole module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....base import StatementContext, TestPolicy
from ....statements.behaviours import behaviour_lines, bullets, quoted
from ....statements.hidden_tests_text import behaviour_paragraphs, example_paragraphs, needed_paragraphs
from ..documentation import lost_parts
from ..knobs import Mode
from ..statement import MAX_RESTORED, Entity, Member, ReplacedCaller


@dataclass(frozen=True)
class ModuleStatement:
    """Everything that is known about a deleted module before its tests are run."""

    module: str  # dotted name
    path: str  # its file
    docstring: str  # of the module; empty when it has none, or when it is still in the workspace
    mode: Mode  # whether only bodies are missing, or the file
    policy: TestPolicy  # which failing tests the workspace lacks
    entities: Sequence[Entity]  # functions and classes to be written, in the order of the source
    constants: Sequence[str]  # assignments that the module has to provide, as the source writes them
    used_by_tests: Sequence[str]  # names of the module that test files mention
    names_to_restore: Sequence[str] = ()  # imports, exports and entries of tables in other modules, as list items
    callers: Sequence[ReplacedCaller] = ()  # statements of other modules that raise NotImplementedError now
    documents: Sequence[str] = ()  # documents of the workspace that lost examples or entries
    lost_helpers: bool = False  # whether private code elsewhere was removed because only the module needed it

    def render(self, context: StatementContext) -> str:
        """Return the module's task, its interface, the behaviours and what other modules need back."""
        where = f"`{self.module}`"
        paragraphs = [
            f"# Write the module {where}",
            f"In this code base, the {context.package} package, {self._state()}",
        ]
        if self.docstring:
            paragraphs.append(f"## Documentation\n\n{quoted(self.docstring)}")
        paragraphs.append("## What it provides\n\n" + "\n\n".join(map(self._entity_text, self.entities)))
        if self.constants:
            body = "\n".join(self.constants)
            paragraphs.append(f"It also defines:\n\n```python\n{body}\n```")
        if self.used_by_tests:
            used = ", ".join(f"`{name}`" for name in self.used_by_tests)
            paragraphs.append(f"Tests use {used} directly.")
        through = "directly or through other modules"
        paragraphs += behaviour_paragraphs(behaviour_lines(context.failing), self.policy, through)
        paragraphs += example_paragraphs(context.examples)
        paragraphs += self._restored()
        if self.documents:
            paragraphs.append(f"## Documents\n\n{lost_parts(self.documents)}")
        paragraphs += needed_paragraphs(context.interface, paragraphs)
        return "\n\n".join(paragraphs) + "\n"

    def _state(self) -> str:
        """Return what the workspace has in the module's place, and what to do."""
        if self.mode == "stub":
            return (
                f"the functions and methods of `{self.path}` have no body: calling one raises `NotImplementedError`. "
                "Signatures and docstrings are still there; private helpers and imports that only the bodies needed "
                "are not. Write the bodies, so that the module behaves as its docstrings and this text say."
            )
        note = " Private helpers elsewhere that only it needed are gone too." if self.lost_helpers else ""
        return (
            f"the file `{self.path}` has been removed, with every import of it.{note} Everything else works. Write it "
            "again, so that it behaves as described here, and restore what other modules had from it."
        )

    def _entity_text(self, entity: Entity) -> str:
        """Return signature, docstring, members and exceptions of one definition; in mode ``stub`` the signature."""
        parts = [f"```python\n{entity.signature}\n```"]
        if self.mode == "stub":
            return parts[0]
        if entity.docstring.strip():
            parts.append(quoted(entity.docstring.strip()))
        if entity.members:
            parts.append("\n".join(map(_member_text, entity.members)))
        if entity.raises:
            parts.append(f"It raises {', '.join(f'`{name}`' for name in entity.raises)} itself.")
        return "\n\n".join(parts)

    def _restored(self) -> list[str]:
        """Return the paragraphs on what other modules have lost."""
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


def _member_text(member: Member) -> str:
    """Return one list item, with the docstring indented below."""
    text = "\n".join(f"  {line}".rstrip() for line in member.docstring.strip().splitlines())
    return f"- `{member.signature}`" + (f"\n\n{text}\n" if text else "")
