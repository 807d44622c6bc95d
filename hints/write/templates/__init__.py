"""Hint templates: one file per hint, each a function from an error's context to a hint.

A template returns ``None`` for an error that it has no advice for. Hints use the transcript up to the error, the tools'
schemas and the visible files alone, so they cannot hold what only a task's secret parts say. They are true before the
turn (site ``erring``) and after it (``recovery``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from ....models import ErrorTurn, Hint
from ....registry import Registry
from ...transcript.past_turns import PastTurn
from ..error_context import ErrorContext


class Template(Protocol):
    """A hint template, as the registry holds it."""

    def __call__(self, context: ErrorContext, /) -> Hint | None:
        """Return the hint for an error; ``None`` when the template has no advice for it."""


_KINDS = (
    "tool_not_found malformed_call invalid_args file_not_found edit_failed command_not_found timeout traceback "
    "output_limit nonzero_exit transport_error injected_fault budget"
).split()
_BEHAVIOURS = "repeat reread sleep pages effort no_call wordy silent false_claim".split()
_BUILTIN = [*_KINDS, *_BEHAVIOURS, "again"]
_CHANGED_TOOLS = ("tool_not_found", "invalid_args")
"""Kinds whose own hint holds for injected errors too: the tools themselves have changed."""
HINTS = Registry("hint", "etude.hints", {name: f".hints.write.templates.{name}:hint" for name in _BUILTIN})


def hints_for(
    error: ErrorTurn,
    turns: Sequence[PastTurn],
    tools: Sequence[Mapping[str, Any]] = (),
    files: Sequence[str] = (),
) -> list[Hint]:
    """Return the hints that fit an error, the one for its kind first.

    An injected error says nothing about the call, so advice about the call is left out there. ``files`` are paths of
    the workspace that the agent may see. The same arguments give the same hints.
    """
    context = ErrorContext(error, turns, tools, files)
    first = "injected_fault" if error.injected else error.kind
    skipped = {*_KINDS, "again"} - {first, *_CHANGED_TOOLS} if error.injected else set()
    made = [hint for name, template in _templates() if name not in skipped and (hint := template(context)) is not None]
    return sorted(made, key=lambda hint: hint.template != first)


@cache
def _templates() -> tuple[tuple[str, Template], ...]:
    """Return every registered template: those for kinds, for behaviours, then those of third parties by name."""
    others = [name for name in HINTS.names() if name not in _BUILTIN]
    return tuple((name, HINTS.load(name)) for name in [*_BUILTIN, *others])


__all__ = ["HINTS", "ErrorContext", "Template", "hints_for"]
