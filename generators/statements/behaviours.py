"""Lines of a statement: the behaviours that test names describe, and the names that tests rely on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...models import InterfaceItem
from ..python.hidden_tests import split_test_id

MAX_BEHAVIOURS = 30
MAX_NAMES = 12
MIN_BEHAVIOURS = 3
"""Test names that, without any documentation, describe a behaviour well enough."""


def behaviour_lines(tests: Iterable[str]) -> list[str]:
    """Return test names as plain words, one line per test function, with the number of cases if parametrised."""
    cases: dict[str, int] = {}
    for test in tests:
        _, parts = split_test_id(test)
        line = ": ".join(text for text in map(_plain_words, parts) if text)
        if parts and "." in parts[-1]:  # a doctest: of a document, or of ``pkg.module.function``
            line = f"the examples of `{parts[-1]}`"
        if line:
            cases[line] = cases.get(line, 0) + 1
    lines = [line if count == 1 else f"{line} ({count} cases)" for line, count in cases.items()]
    more = len(lines) - MAX_BEHAVIOURS
    return lines[:MAX_BEHAVIOURS] + ([f"and {more} more"] if more > 0 else [])


def grouped_lines(tests: Iterable[str], most: int = MAX_BEHAVIOURS) -> list[str]:
    """Return ``behaviour_lines`` with those of one test class on one line, at most ``most`` lines."""
    groups: dict[str, list[str]] = {}
    for line in behaviour_lines(tests):
        head, _, name = line.rpartition(": ")
        groups.setdefault(head if head else f"\0{line}", []).append(name)
    lines = [f"{head}: {', '.join(items)}" if head[0] != "\0" else items[0] for head, items in groups.items()]
    more = len(lines) - most
    return lines[:most] + ([f"and {more} more"] if more > 0 else [])


def needed_items(items: Sequence[InterfaceItem], text: str) -> list[InterfaceItem]:
    """Return keywords, messages, and the exceptions that a statement's ``text`` does not name.

    What else tests use is in the workspace: a reader who has to write something else does not need it.
    """
    stated = set(re.findall(r"\w+", text))
    return [
        item
        for item in items
        if item.kind in ("keyword", "message")
        or (item.kind == "exception" and item.name.rpartition(".")[2] not in stated)
    ]


def interface_lines(items: Sequence[InterfaceItem]) -> list[str]:
    """Return all keywords, exceptions and messages as list items, and the first names that the workspace defines."""
    demanded = [item for item in items if item.kind in ("keyword", "exception", "message")]
    present = [item for item in items if item.kind not in ("keyword", "exception", "message")]
    names: dict[tuple[str, str], list[InterfaceItem]] = {}
    for item in present:  # one line for what several modules have
        names.setdefault((item.signature or item.name, item.kind), []).append(item)
    groups = list(names.values())
    lines = [_interface_line(item) for item in demanded]
    lines += [
        " and ".join([_interface_line(first), *(f"`{item.name}`" for item in others)])
        for first, *others in groups[:MAX_NAMES]
    ]
    more = len(groups) - MAX_NAMES
    return lines + ([f"- and {more} more names of the package, which the workspace defines"] if more > 0 else [])


def quoted(text: str) -> str:
    """Return the text as a Markdown quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def bullets(lines: Iterable[str]) -> str:
    """Return the lines as a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)


def _plain_words(name: str) -> str:
    """Return ``TestLRUCache`` or ``test_get_missing`` as plain words."""
    name = re.sub(r"^[Tt]ests?_?|_?Tests?(Case)?$", "", name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return name.replace("_", " ").strip()


def _interface_line(item: InterfaceItem) -> str:
    if item.kind == "message":
        return f"- message matching `{item.name}`"
    if item.signature:
        return f"- `{item.signature}`, as `{item.name}`"
    return f"- {item.kind} `{item.name}`"
