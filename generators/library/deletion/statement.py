"""The statement of a deletion task, put together without any language model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ....models import InterfaceItem

MAX_BEHAVIOURS = 30
MAX_NAMES = 12
MAX_RESTORED = 20


def deletion_statement(
    package: str, facts: dict[str, Any], hidden: Iterable[str], interface: list[InterfaceItem], *, tests: str = "hidden"
) -> str:
    """Signature, docstring, exceptions, behaviours from test names, what to restore, interface and call sites.

    ``facts`` is what the generator says of the deleted entity: ``module``, ``name``, ``kind``, ``mode``, ``signature``,
    ``docstring``, ``raises``, ``call_sites``; of a method its ``owner``, of a class its ``members``; what went with it:
    ``helpers`` (how many), ``imports``, ``entities`` (public ones, described alike), ``callers`` (statements that were
    replaced) and ``restore`` (names). ``hidden`` are the tests in the order in which they should be read: those about
    the entity itself first.
    """
    where = f"`{facts['module']}.{facts['name']}`"
    paragraphs = [
        f"# Implement {where}",
        f"In this code base, the {package} package, {_state(facts, where)}{_gone(facts)}",
    ]
    paragraphs += _entity(facts, level="##")
    for item in facts.get("entities", []):
        paragraphs.append(f"## Also missing: `{item['module']}.{item['name']}`")
        paragraphs += _entity(item, level="###")
    behaviours = _behaviours(hidden)
    if behaviours:
        paragraphs.append(f"## Behaviour\n\n{_KINDS[tests]}:\n\n" + "\n".join(f"- {line}" for line in behaviours))
    paragraphs += _restored(facts)
    listed = _interface(interface[1 + len(facts.get("entities", [])) :])
    if listed:
        paragraphs.append("## Interface\n\nThe hidden tests also rely on:\n\n" + "\n".join(listed))
    if facts["call_sites"]:
        paragraphs.append("## Where it is used\n\n" + "\n".join(f"- `{site}`" for site in facts["call_sites"]))
    return "\n\n".join(paragraphs) + "\n"


_KINDS = {
    "hidden": "Hidden tests check, directly or through callers",
    "visible": "These tests of the workspace fail now",
    "half": "These tests fail now; half of them are in the workspace, all of them are graded",
}


def _state(facts: dict[str, Any], where: str) -> str:
    """What the workspace has in the entity's place."""
    kind = facts.get("kind", "function")
    if facts.get("mode", "stub") == "remove":
        names = ", with every name that referred to it" if facts.get("restore") or facts.get("callers") else ""
        return (
            f"the {kind} {where} has been removed{names}. Everything else works. Write it again in "
            f"`{facts['module']}`, so that it behaves as described here."
        )
    if kind == "class":
        return (
            f"the methods of the class {where} have no body: calling one raises `NotImplementedError`. Everything else "
            "works. Write them so that the class behaves as described here."
        )
    return (
        f"the body of {where} is missing: calling it raises `NotImplementedError`. Everything else works. Write the "
        f"{kind} so that it behaves as described here."
    )


def _gone(facts: dict[str, Any]) -> str:
    """What was removed besides the body, since nobody else needed it."""
    parts = ["private helpers"] * bool(facts["helpers"]) + ["imports"] * bool(facts["imports"])
    if not parts:
        return ""
    text = " and ".join(parts)
    return f" {text[0].upper()}{text[1:]} that only it needed are gone too; write what you need, in any shape."


def _entity(facts: dict[str, Any], *, level: str) -> list[str]:
    """Signature, docstring, members or class, exceptions."""
    paragraphs = [f"```python\n{facts['signature']}\n```"]
    if facts["docstring"].strip():
        paragraphs.append(f"{level} Documentation\n\n{_quoted(facts['docstring'].strip())}")
    if facts.get("members"):
        paragraphs.append(f"{level} Members\n\n" + "\n".join(_member(item) for item in facts["members"]))
    if facts.get("owner"):
        paragraphs.append(_class(facts["owner"], level))
    if facts["raises"]:
        names = ", ".join(f"`{name}`" for name in facts["raises"])
        paragraphs.append(f"{level} Exceptions\n\nIt raises {names} itself.")
    return paragraphs


def _member(item: dict[str, str]) -> str:
    """One line per member; its docstring indented below."""
    text = "\n".join(f"  {line}".rstrip() for line in item["docstring"].strip().splitlines())
    return f"- `{item['signature']}`" + (f"\n\n{text}\n" if text else "")


def _class(owner: dict[str, Any], level: str) -> str:
    """The class of a method, as far as it says what the method is for."""
    parts = [f"{level} Its class\n\n```python\n{owner['signature']}\n```"]
    if owner["docstring"].strip():
        parts.append(_quoted(owner["docstring"].strip()))
    if owner["siblings"]:
        parts.append("It also has:\n\n" + "\n".join(f"- `{item}`" for item in owner["siblings"]))
    return "\n\n".join(parts)


def _restored(facts: dict[str, Any]) -> list[str]:
    """Names and statements that must be put back besides the definition."""
    paragraphs = []
    names = facts.get("restore", [])
    if names:
        lines = [f"- {line}" for line in names[:MAX_RESTORED]]
        more = len(names) - MAX_RESTORED
        lines += [f"- and {more} more of the same kind"] if more > 0 else []
        paragraphs.append(
            "## Names to restore\n\nThese went with it and have to be there again:\n\n" + "\n".join(lines)
        )
    if facts.get("callers"):
        parts = [
            f"In `{item['path']}`, `{item['where']}`:\n\n```python\n{item['text']}\n```" for item in facts["callers"]
        ]
        paragraphs.append(
            "## Callers to restore\n\nThese statements used it and raise `NotImplementedError` now. They were:\n\n"
            + "\n\n".join(parts)
        )
    return paragraphs


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


def needs_words(facts: dict[str, Any], hidden: Iterable[str]) -> bool:
    """Whether the statement says too little: no docstring, and fewer than three test names that tell something."""
    documented = facts["docstring"] or any(item["docstring"] for item in facts.get("members", []))
    return not documented and len(_behaviours(hidden)) < 3


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
    if item.signature:
        return f"- `{item.signature}`, as `{item.name}`"
    return f"- {item.kind} `{item.name}`"
