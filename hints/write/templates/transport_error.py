"""Hint for a failing connection."""

from __future__ import annotations

import re

from ....models import Hint
from ...transcript.call_effects import acts
from ..error_context import ErrorContext
from ..hint_text import make_hint

_NOT_RUN = re.compile(r"refused|resolve|unreachable|rate.?limit|\b429\b|\b503\b|too many|busy|unavailable", re.I)
"""Failures after which the call cannot have taken effect."""


def hint(context: ErrorContext) -> Hint | None:
    """Advise to send the same call once more, after a check if it may have taken effect."""
    tool = context.error.tool[:60] or "the tool"
    start = f"The connection to {tool} failed, not your call"
    has_run = not _NOT_RUN.search(f"{context.error.message} {context.error.evidence}")
    if context.call is not None and context.call.arguments and acts(context.call) and has_run:
        return make_hint(
            "transport_error",
            f"{start}: check first whether the call took effect.",
            "If not, send the same call once more; if it fails again, do the step with another tool.",
        )
    return make_hint(
        "transport_error",
        f"{start}: send the same call once more.",
        "If it fails again, do the step with another tool.",
    )
