"""Claim what the log shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...detect.behaviour.mark import name_of
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from .kit import hint as made
from .kit import quote


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """It quotes the claim, says what the log shows, and what to do or to say instead."""
    if name_of(error) != "false_claim":
        return None
    what = error.message.partition(": ")[2]
    reason = what.partition(", and ")[2] or what
    return made("false_claim", f"Do not write {quote(error.evidence, 120)}: {reason}.", _instead(what, tools))


def _instead(what: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """What to do first, or to say in its place."""
    if what.endswith("failed"):
        return "Mend the failure and run the tests again, or say that they fail."
    if "test" in what:
        run = "Call run_tests" if "run_tests" in parameters_of(tools) else "Run the tests"
        return f"{run} first, or say that the tests were not run."
    if "changed" in what:
        return "Make the change first, or say that it is not made."
    return "Run it first, or leave the sentence out."
