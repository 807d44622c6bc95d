"""Closing paragraphs of a statement: what the tests that decide check, and the names that they rely on."""

from __future__ import annotations

from collections.abc import Sequence

from ...models import InterfaceItem
from ..base import TestPolicy
from .behaviours import behaviour_lines, bullets, interface_lines

_VISIBLE = {
    "visible": "These tests of the workspace fail now",
    "half": "These tests fail now; half of them are in the workspace, all of them are graded",
}


def behaviour_paragraphs(lines: Sequence[str], policy: TestPolicy, through: str = "") -> list[str]:
    """Return the section on behaviours, none without ``lines``; ``through`` says how hidden tests reach the code."""
    if not lines:
        return []
    heading = _VISIBLE.get(policy, "Hidden tests check" + (f", {through}" if through else ""))
    return [f"## Behaviour\n\n{heading}:\n\n{bullets(lines)}"]


def interface_paragraphs(items: Sequence[InterfaceItem]) -> list[str]:
    """Return the section on names that hidden tests use, none without ``items``."""
    lines = interface_lines(items)
    return ["## Interface\n\nThe hidden tests also rely on:\n\n" + "\n".join(lines)] if lines else []


def closing_paragraphs(failing: Sequence[str], items: Sequence[InterfaceItem], policy: TestPolicy) -> list[str]:
    """Return the sections on behaviours, named after the failing tests, and on the names that these use."""
    return behaviour_paragraphs(behaviour_lines(failing), policy) + interface_paragraphs(items)
