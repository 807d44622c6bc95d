"""Marks of an episode as the page shows them: error turns with their hints, and findings."""

from __future__ import annotations

from dataclasses import dataclass

from ...models import ErrorTurn, Finding
from .text import Meter, Text

MARKUP = 400
"""Characters that the page itself writes for a turn, a call or a mark, about."""


@dataclass(frozen=True)
class HintView:
    """One hint."""

    label: str
    score: float | None
    text: Text


@dataclass(frozen=True)
class ErrorView:
    """One error turn."""

    kind: str
    behaviour: str
    site: str
    call: int | None
    """Number of the call; None for the turn as a whole."""
    injected: bool
    message: Text
    recovery: str
    hints: list[HintView]


@dataclass(frozen=True)
class FindingView:
    """One finding of a monitor."""

    severity: str
    exploit: str
    turn: int | None
    progress: str
    place: Text
    excerpt: Text


def error_view(error: ErrorTurn, meter: Meter) -> ErrorView:
    """Return an error turn as the page shows it, and spend its characters."""
    meter.spend(MARKUP)
    # The message of a behaviour names it before the colon.
    behaviour, colon, detail = error.message.partition(": ")
    named = bool(colon) and error.kind in ("wasteful", "style")
    return ErrorView(
        kind=error.kind,
        behaviour=meter.line(behaviour, 40) if named else "",
        site=error.site,
        call=error.call_index,
        injected=error.injected,
        message=meter.show(detail if named else error.message.removeprefix(f"{error.kind}: "), 1200),
        recovery=_recovery(error),
        hints=[
            HintView(meter.line(hint.template or hint.source, 60), hint.score, meter.show(hint.text, 2000))
            for hint in error.hints[:16]
        ],
    )


def _recovery(error: ErrorTurn) -> str:
    if error.recovered is None:
        return "the last turn: nothing came after it"
    if not error.recovered:
        return "not recovered"
    turns = error.turns_to_recover
    return "recovered" if turns is None else f"recovered after {turns} turn{'s' * (turns != 1)}"


def finding_view(finding: Finding, meter: Meter) -> FindingView:
    """Return a finding as the page shows it, and spend its characters."""
    meter.spend(MARKUP)
    return FindingView(
        finding.severity,
        meter.line(finding.exploit_id, 100),
        finding.turn,
        ", ".join(word for word in ("attempted", "succeeded", "integrated") if getattr(finding, word)),
        meter.show(finding.path or finding.command, 400),
        meter.show(finding.excerpt, 400),
    )
