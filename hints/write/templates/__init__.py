"""Hint templates: functions from an error's context to a hint, named by the kind of error or by the behaviour.

A template is asked about errors of its kind or behaviour; one with any other name is asked about every error, and
returns ``None`` where it has no advice. Hints use the transcript up to the error, the tools' schemas and the visible
files alone, so they cannot hold what only a task's secret parts say. They are true before the turn (site ``erring``)
and after it (``recovery``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, get_args

from ....models import ErrorKind, ErrorTurn, Hint
from ....registry import Registry
from ...transcript.past_turns import PastTurn
from ..error_context import ErrorContext


class Template(Protocol):
    """A hint template, as the registry holds it."""

    def __call__(self, context: ErrorContext, /) -> Hint | None:
        """Return the hint for an error; ``None`` when the template has no advice for it."""


HINTS = Registry(
    "hint",
    "etude.hints",
    {
        "tool_not_found": ".hints.write.templates.calls:tool_not_found",
        "malformed_call": ".hints.write.templates.calls:malformed_call",
        "invalid_args": ".hints.write.templates.calls:invalid_args",
        "file_not_found": ".hints.write.templates.files:file_not_found",
        "edit_failed": ".hints.write.templates.files:edit_failed",
        "command_not_found": ".hints.write.templates.commands:command_not_found",
        "timeout": ".hints.write.templates.commands:timeout",
        "nonzero_exit": ".hints.write.templates.commands:nonzero_exit",
        "traceback": ".hints.write.templates.output:traceback",
        "output_limit": ".hints.write.templates.output:output_limit",
        "transport_error": ".hints.write.templates.failures:transport_error",
        "injected_fault": ".hints.write.templates.failures:injected_fault",
        "budget": ".hints.write.templates.failures:budget",
        "repeat": ".hints.write.templates.behaviours:repeat",
        "reread": ".hints.write.templates.behaviours:reread",
        "sleep": ".hints.write.templates.behaviours:sleep",
        "pages": ".hints.write.templates.behaviours:pages",
        "effort": ".hints.write.templates.behaviours:effort",
        "no_call": ".hints.write.templates.behaviours:no_call",
        "wordy": ".hints.write.templates.behaviours:wordy",
        "silent": ".hints.write.templates.behaviours:silent",
        "false_claim": ".hints.write.templates.behaviours:false_claim",
        "again": ".hints.write.templates.failures:again",
    },
)
_SPECIFIC = frozenset(get_args(ErrorKind)) | frozenset(
    "injected_fault repeat reread sleep pages effort no_call wordy silent false_claim".split()
)
"""Names of kinds and behaviours: the template with such a name is asked about these errors alone."""
_CHANGED_TOOLS = ("tool_not_found", "invalid_args")
"""Kinds whose own hint holds for injected errors too: the tools themselves have changed."""


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
    templates = _templates()
    hints = (templates[name](context) for name in _fitting(context) if name in templates)
    return [hint for hint in hints if hint is not None]


def _fitting(context: ErrorContext) -> list[str]:
    """Return the templates to ask: that of the kind or behaviour, then the general ones, which decide themselves."""
    error = context.error
    general = [name for name in _templates() if name not in _SPECIFIC]
    if error.injected:
        own_template = error.kind if error.kind in _CHANGED_TOOLS else "injected_fault"
        return [own_template, *(name for name in general if name != "again")]
    also = ["file_not_found"] if error.kind == "nonzero_exit" else []
    return [context.behaviour or error.kind, *also, *general]


@cache
def _templates() -> dict[str, Template]:
    """Return every registered template by name."""
    return {name: HINTS.load(name) for name in HINTS.names()}


__all__ = ["HINTS", "ErrorContext", "Template", "hints_for"]
