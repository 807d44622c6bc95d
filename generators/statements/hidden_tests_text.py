"""Closing paragraphs of a statement: what the tests that decide check, and the names that they rely on."""

from __future__ import annotations

from collections.abc import Sequence

from ...models import InterfaceItem
from ..base import Example, StatementContext, TestPolicy
from .behaviours import behaviour_lines, bullets, interface_lines, needed_items
from .examples import examples_text

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


def example_paragraphs(examples: Sequence[Example]) -> list[str]:
    """Return the section with executed calls, none without ``examples``."""
    heading = "Examples" if len(examples) > 1 else "Example"
    return [f"## {heading}\n\nWith the right code:\n\n{examples_text(examples)}"] if examples else []


def interface_paragraphs(items: Sequence[InterfaceItem]) -> list[str]:
    """Return the section on names that hidden tests use, none without ``items``."""
    lines = interface_lines(items)
    return ["## Interface\n\nThe hidden tests also rely on:\n\n" + "\n".join(lines)] if lines else []


def needed_paragraphs(items: Sequence[InterfaceItem], paragraphs: Sequence[str]) -> list[str]:
    """Return the section on names that hidden tests use and that ``paragraphs`` of a statement do not give yet."""
    return interface_paragraphs(needed_items(items, "\n".join(paragraphs)))


def closing_paragraphs(context: StatementContext, policy: TestPolicy, paragraphs: Sequence[str]) -> list[str]:
    """Return the sections on behaviours, named after the failing tests, on examples and on names that these need.

    ``paragraphs`` are those before.
    """
    closing = behaviour_paragraphs(behaviour_lines(context.failing), policy) + example_paragraphs(context.examples)
    return closing + needed_paragraphs(context.interface, [*paragraphs, *closing])
