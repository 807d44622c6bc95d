"""Hint for a submission without a word."""

from __future__ import annotations

from ....models import Hint
from ...transcript.call_effects import path_of, writes_by_name
from ..error_context import ErrorContext
from ..hint_text import listed, make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Ask for one or two closing sentences, and name the files that were written."""
    if context.behaviour != "silent":
        return None
    calls = [call for turn in context.turns[: context.error.turn + 1] for call in turn.calls]
    paths = dict.fromkeys(path_of(call) for call in calls if writes_by_name(call))
    named = [quote(path, 60) for path in paths if path and not path.startswith("/tmp/")][:3]
    about = f" (you wrote to {listed(named)})" if named else ""
    return make_hint(
        "silent", f"Close with one or two sentences: what you changed{about}, and which tests you ran with what result."
    )
