"""Hint for a closing message that the log contradicts."""

from __future__ import annotations

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote


def hint(context: ErrorContext) -> Hint | None:
    """Quote a claim that the log contradicts, and say what to do or to write instead."""
    if context.behaviour != "false_claim":
        return None
    reason = context.detail.partition(", and ")[2] or context.detail
    claim = quote(context.error.evidence, 120)
    return make_hint("false_claim", f"Do not write {claim}: {reason}.", _instead(context))


def _instead(context: ErrorContext) -> str:
    """Return what to do first, or what to write instead."""
    if context.detail.endswith("failed"):
        return "Fix the failure and run the tests again, or say that they fail."
    if "test" in context.detail:
        run = "Call run_tests" if "run_tests" in context.schemas else "Run the tests"
        return f"{run} first, or say that the tests were not run."
    if "changed" in context.detail:
        return "Make the change first, or say that it is not made."
    return "Run it first, or leave the sentence out."
