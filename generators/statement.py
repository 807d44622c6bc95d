"""The statement of a deletion task, put together without any language model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..models import InterfaceItem

MAX_BEHAVIOURS = 30
MAX_NAMES = 12


def deletion_statement(
    package: str, facts: dict[str, Any], hidden: Iterable[str], interface: list[InterfaceItem], *, visible: bool = False
) -> str:
    """Signature, docstring, behaviours from test names, call sites, exceptions and interface, in this order.

    ``facts`` is what the generator says of the deleted entity: ``module``, ``name``, ``signature``, ``docstring``,
    ``raises``, ``call_sites``, and what went with it: ``helpers`` (how many) and ``imports``. ``hidden`` are the tests
    in the order in which they should be read: those about the entity itself first.
    """
    where = f"`{facts['module']}.{facts['name']}`"
    paragraphs = [
        f"# Implement {where}",
        f"In this code base, the {package} package, the body of {where} is missing: calling it raises "
        "`NotImplementedError`. Everything else works. Write the function so that it behaves as described here."
        + _gone(facts),
        f"```python\n{facts['signature']}\n```",
    ]
    if facts["docstring"].strip():
        paragraphs.append(f"## Documentation\n\n{_quoted(facts['docstring'].strip())}")
    behaviours = _behaviours(hidden)
    if behaviours:
        kind = "These tests of the workspace fail now" if visible else "Hidden tests check, directly or through callers"
        paragraphs.append(f"## Behaviour\n\n{kind}:\n\n" + "\n".join(f"- {line}" for line in behaviours))
    if facts["raises"]:
        names = ", ".join(f"`{name}`" for name in facts["raises"])
        paragraphs.append(f"## Exceptions\n\nIt raises {names} itself.")
    if facts["call_sites"]:
        paragraphs.append("## Where it is used\n\n" + "\n".join(f"- `{site}`" for site in facts["call_sites"]))
    listed = _interface(interface[1:])
    if listed:
        paragraphs.append("## Interface\n\nThe hidden tests also rely on:\n\n" + "\n".join(listed))
    return "\n\n".join(paragraphs) + "\n"


def _gone(facts: dict[str, Any]) -> str:
    """What was removed besides the body, since nobody else needed it."""
    parts = ["private helpers"] * bool(facts["helpers"]) + ["imports"] * bool(facts["imports"])
    if not parts:
        return ""
    text = " and ".join(parts)
    return f" {text[0].upper()}{text[1:]} that only it needed are gone too; write what you need, in any shape."


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _behaviours(hidden: Iterable[str]) -> list[str]:
    """Test names as words, one per test function, with the number of cases of a parametrised one."""
    cases: dict[str, int] = {}
    for test in hidden:
        _, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
        words = [_words(part) for part in parts]
        line = ": ".join(word for word in words if word)
        if line:
            cases[line] = cases.get(line, 0) + 1
    lines = [line if count == 1 else f"{line} ({count} cases)" for line, count in cases.items()]
    more = len(lines) - MAX_BEHAVIOURS
    return lines[:MAX_BEHAVIOURS] + ([f"and {more} more"] if more > 0 else [])


def _words(name: str) -> str:
    """``TestLRUCache`` and ``test_get_missing`` as plain words."""
    name = re.sub(r"^[Tt]ests?_?|_?Tests?(Case)?$", "", name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return name.replace("_", " ").strip()


def _interface(items: list[InterfaceItem]) -> list[str]:
    """Keywords, exceptions and messages in full; names that the workspace still defines up to a dozen."""
    demanded = [item for item in items if item.kind in ("keyword", "exception", "message")]
    present = [item for item in items if item.kind not in ("keyword", "exception", "message")]
    lines = [_line(item) for item in [*demanded, *present[:MAX_NAMES]]]
    more = len(present) - MAX_NAMES
    return lines + ([f"- and {more} more names of the package, which the workspace defines"] if more > 0 else [])


def _line(item: InterfaceItem) -> str:
    if item.kind == "message":
        return f"- message matching `{item.name}`"
    return f"- {item.kind} `{item.signature or item.name}`" + (f" of `{item.name}`" if item.signature else "")
