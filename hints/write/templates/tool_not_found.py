"""Hint for a call of a tool that does not exist."""

from __future__ import annotations

from ....models import Hint
from ....tool_names import by_likeness, nearest_name, same_action
from ..error_context import ErrorContext
from ..hint_text import LONGEST_LIST, listed, make_hint

_LIST = "The tools are: "
_ROOM = 700


def hint(context: ErrorContext) -> Hint | None:
    """Name the tools that exist, and the one that was meant if only one can be."""
    error = context.error
    names = _available(context)
    if not names:
        return None
    near = nearest_name(error.tool, names)
    if len(", ".join(names)) > _ROOM:
        names = by_likeness(error.tool, names)
    is_current = not error.injected and set(names) <= set(context.schemas)
    fitting = [name for name in context.tools_that_fit() if same_action(error.tool, name)] if is_current else []
    advice = f"; use {near}." if near else f"; its arguments fit {fitting[0]}." if len(fitting) == 1 else "."
    return make_hint(
        "tool_not_found",
        f"Reminder: the available tools are {listed(names, _ROOM)}.",
        f"There is no tool {error.tool[:60]!r}{advice}",
        longest=LONGEST_LIST,
    )


def _available(context: ErrorContext) -> list[str]:
    """Return the tools' names; a status line's list wins, since tools may have been withdrawn or renamed."""
    error, names = context.error, list(context.schemas)
    text = error.message if _LIST in error.message else error.evidence
    if _LIST not in text:
        return names
    stated = [name.strip() for name in text.partition(_LIST)[2].split(",")]
    return [name for name in stated if name] if len(stated) >= len(names) or error.injected else names
