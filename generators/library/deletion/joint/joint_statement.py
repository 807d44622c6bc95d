"""The statement of a deletion of many definitions, composed without a language model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from ....base import StatementContext, TestPolicy
from ....python.hidden_tests import split_test_id
from ....statements.behaviours import bullets, quoted
from ....statements.hidden_tests_text import behaviour_paragraphs, example_paragraphs, needed_paragraphs
from ..documentation import lost_parts
from ..knobs import Mode
from ..statement import MAX_RESTORED, Entity, ReplacedCaller
from .feature_title import plain_words

MAX_FULL = 40
"""Entry points that are described in full; the others are listed with the internals."""
MAX_ERRORS = 40
MAX_BEHAVIOURS = 150
"""Test functions that are named."""
MAX_LISTED = 200


@dataclass(frozen=True)
class Place:
    """A module that lost code."""

    path: str  # its file
    about: str  # the first sentence of its docstring; empty without one
    definitions: int  # how many of its definitions are missing


@dataclass(frozen=True)
class Part:
    """One missing definition."""

    entity: Entity  # what the statement says about it
    path: str  # its file
    called_from: Sequence[str] = ()  # lines of the workspace that call it
    used_by: Sequence[str] = ()  # missing definitions that call it
    removed: bool = False  # whether its name is missing too


@dataclass(frozen=True)
class JointStatement:
    """Everything that is known about the deletion before its tests are run."""

    heading: str  # the first line, without ``#``
    summary: str  # what is missing, as one sentence
    policy: TestPolicy  # which failing tests the workspace lacks
    mode: Mode  # whether only the bodies are missing, or names too
    places: Sequence[Place]  # the files that lost code
    entry_points: Sequence[Part]  # definitions that tests use directly
    internals: Sequence[Part]  # the others that the workspace still names, or that have to be there by name
    errors: Sequence[str] = ()  # exceptions with their messages, as the missing code raises them
    specification: str = ""  # prose about the feature, where the generator has some
    helpers: int = 0  # private definitions that are gone
    imports: int = 0  # imported names that are gone
    names_to_restore: Sequence[str] = ()  # exports, aliases and entries of tables, as list items
    callers: Sequence[ReplacedCaller] = ()  # statements that were replaced because they use what is missing
    documents: Sequence[str] = ()  # documents of the workspace that lost examples or entries

    def render(self, context: StatementContext) -> str:
        """Return the whole text: entry points in full, then internals, behaviours and what else must be there."""
        paragraphs = [f"# {self.heading}", self._introduction(context.package)]
        if self.specification:
            paragraphs.append(self.specification)
        paragraphs.append("## Where it stands\n\n" + bullets(map(_place_line, self.places)))
        paragraphs += self._entry_points()
        paragraphs += self._internals()
        behaviours = grouped_behaviours(context.failing)
        paragraphs += behaviour_paragraphs(behaviours, self.policy, "directly or through callers")
        paragraphs += example_paragraphs(context.examples)
        if self.errors:
            lines = [f"`{text}`" for text in self.errors[:MAX_ERRORS]]
            paragraphs.append("## Errors\n\nThe missing code raises these, with these messages:\n\n" + bullets(lines))
        paragraphs += self._restored()
        if self.documents:
            paragraphs.append(f"## Documents\n\n{lost_parts(self.documents)}")
        paragraphs += needed_paragraphs(context.interface, paragraphs)
        return "\n\n".join(paragraphs) + "\n"

    def _introduction(self, package: str) -> str:
        """Return what is missing, in which state the workspace is, and what to do."""
        number = len(self.entry_points) + len(self.internals)
        what = _counted([part.entity.kind for part in (*self.entry_points, *self.internals)])
        where = "one file" if len(self.places) == 1 else f"{len(self.places)} files"
        parts = [*self.entry_points, *self.internals]
        it, they = ("it", "it behaves") if number == 1 else ("them", "they behave")
        if not any(part.removed for part in parts):
            bodies = "Its body is" if number == 1 else "Their bodies are"
            state = f"{bodies} missing: calling {it} raises `NotImplementedError`."
        elif all(part.removed for part in parts):
            state = "It was removed with its name." if number == 1 else "They were removed with their names."
        else:
            state = (
                "The workspace still names some of them, and calling these raises `NotImplementedError`; the others "
                "were removed with their names."
            )
        text = (
            f"In this code base, the {package} package, {self.summary} It is made of {what} in {where}. {state} "
            f"Everything else works and has to keep working. Write {it} so that {they} as described here."
        )
        gone = " and ".join(["private helpers"] * bool(self.helpers) + ["imports"] * bool(self.imports))
        if not gone:
            return text
        also = f"that only {'it' if number == 1 else 'they'} needed are gone too; write what you need, in any shape"
        return f"{text} {gone[0].upper()}{gone[1:]} {also}."

    def _entry_points(self) -> list[str]:
        """Return the descriptions of the first entry points, by module and class."""
        paragraphs = []
        chosen = self.entry_points[:MAX_FULL]
        if chosen:
            heading = "Entry point" if len(chosen) == 1 else "Entry points"
            paragraphs.append(f"## {heading}\n\nTests use {'it' if len(chosen) == 1 else 'these'} directly.")
        for _, group in groupby(chosen, key=lambda part: (part.path, part.entity.owner)):
            parts = list(group)
            first = parts[0]
            owner = first.entity.owner
            paragraphs.append(f"### `{first.entity.dotted.rpartition('.')[0]}`, in `{first.path}`")
            if owner:
                text = f"\n\n{quoted(owner.docstring.strip())}" if owner.docstring.strip() else ""
                paragraphs.append(f"```python\n{owner.signature}\n```{text}")
            for part in parts:
                paragraphs += _full_text(part)
        return paragraphs

    def _internals(self) -> list[str]:
        """Return the list of what tests do not use directly."""
        short = [*self.entry_points[MAX_FULL:], *self.internals]
        if not short:
            return []
        lines = [_short_line(part) for part in short[:MAX_LISTED]]
        lines += [f"and {len(short) - MAX_LISTED} more in the same files"] if len(short) > MAX_LISTED else []
        if not self.entry_points:
            return [f"## Missing definition{'s' if len(lines) > 1 else ''}\n\n{bullets(lines)}"]
        head = "These are missing too; only other code of the package uses them."
        if len(lines) == 1:
            head = "This is missing too; only other code of the package uses it."
        return [f"## Internals\n\n{head}\n\n{bullets(lines)}"]

    def _restored(self) -> list[str]:
        """Return the paragraphs on names and statements that must be restored besides the definitions."""
        paragraphs = []
        if self.names_to_restore:
            lines = list(self.names_to_restore[:MAX_RESTORED])
            more = len(self.names_to_restore) - MAX_RESTORED
            lines += [f"and {more} more of the same kind"] if more > 0 else []
            is_one = len(self.names_to_restore) == 1
            head = "This went too and has to be there again" if is_one else "These went too and have to be there again"
            paragraphs.append(f"## Names to restore\n\n{head}:\n\n{bullets(lines)}")
        if self.callers:
            parts = [f"In `{item.path}`, `{item.where}`:\n\n```python\n{item.text}\n```" for item in self.callers]
            head = "These statements used what is missing and raise `NotImplementedError` now. They were"
            if len(parts) == 1:
                head = "This statement used what is missing and raises `NotImplementedError` now. It was"
            paragraphs.append(f"## Callers to restore\n\n{head}:\n\n" + "\n\n".join(parts))
        return paragraphs


def grouped_behaviours(tests: Iterable[str]) -> list[str]:
    """Return test names as plain words, one line per test class or, without a class, per file."""
    groups: dict[str, dict[str, None]] = {}
    number = 0
    for test in tests:
        path, parts = split_test_id(test)
        if not parts:
            continue
        group = plain_words(parts[0]) if len(parts) > 1 else plain_words(PurePosixPath(path).stem)
        names = groups.setdefault(group, {})
        text = plain_words(parts[-1])
        if text and text not in names and (number := number + 1) <= MAX_BEHAVIOURS:
            names[text] = None
    lines = [f"{group}: {'; '.join(names)}" if group else "; ".join(names) for group, names in groups.items() if names]
    return lines + ([f"and {number - MAX_BEHAVIOURS} more"] if number > MAX_BEHAVIOURS else [])


def _counted(kinds: Sequence[str]) -> str:
    """Return ``one method``, ``3 functions`` or ``4 functions and methods``."""
    if len(kinds) == 1:
        return f"one {kinds[0]}"
    names = [f"{kind}{'es' if kind == 'class' else 's'}" for kind in ("function", "method", "class") if kind in kinds]
    return f"{len(kinds)} {' and '.join(names) if len(names) < 3 else 'functions, methods and classes'}"


def _place_line(place: Place) -> str:
    number = "1 definition" if place.definitions == 1 else f"{place.definitions} definitions"
    return f"`{place.path}`: {number}" + (f". {place.about}" if place.about else "")


def _full_text(part: Part) -> list[str]:
    """Return signature, documentation, members, exceptions and uses of one definition."""
    entity = part.entity
    paragraphs = [f"```python\n{entity.signature}\n```"]
    if entity.docstring.strip():
        paragraphs.append(quoted(entity.docstring.strip()))
    notes = [f"member `{item.signature}`" for item in entity.members]
    if entity.raises:
        notes.append("raises " + ", ".join(f"`{name}`" for name in entity.raises))
    notes += [f"called in `{site}`" for site in part.called_from]
    notes += [f"called by `{name}`" for name in part.used_by]
    return [*paragraphs, bullets(notes)] if notes else paragraphs


def _short_line(part: Part) -> str:
    """Return one list item: signature, place, first line of the docstring and who calls it."""
    entity = part.entity
    signature = " ".join(entity.signature.split())
    about = entity.docstring.strip().split("\n\n")[0].replace("\n", " ")
    uses = [f"`{name}`" for name in part.used_by] or [f"`{site}`" for site in part.called_from[:1]]
    texts = [f"`{entity.dotted}`: `{signature}`", about.rstrip("."), f"called by {', '.join(uses)}" if uses else ""]
    return ". ".join(text for text in texts if text)
