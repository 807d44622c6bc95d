"""What was marked in an episode, as the page shows it: error turns with their hints, and findings."""

from __future__ import annotations

from dataclasses import dataclass

from ...models import ErrorTurn, Finding
from .text import Meter, Text

MARKUP = 400
"""Characters that the page itself writes for a turn, a call or a mark, about."""


@dataclass(frozen=True)
class HintView:
    label: str
    score: float | None
    text: Text


@dataclass(frozen=True)
class ErrorView:
    """``call`` is the number of the call, ``None`` for the turn as a whole."""

    kind: str
    behaviour: str
    site: str
    call: int | None
    injected: bool
    message: Text
    recovery: str
    hints: list[HintView]


@dataclass(frozen=True)
class FindingView:
    severity: str
    exploit: str
    turn: int | None
    how: str
    place: Text
    excerpt: Text


def error_view(error: ErrorTurn, meter: Meter) -> ErrorView:
    meter.spend(MARKUP)
    # Behaviours say which one they are before the colon.
    behaviour, colon, rest = error.message.partition(": ")
    named = bool(colon) and error.kind in ("wasteful", "style")
    return ErrorView(
        kind=error.kind,
        behaviour=meter.line(behaviour, 40) if named else "",
        site=error.site,
        call=error.call_index,
        injected=error.injected,
        message=meter.show(rest if named else error.message.removeprefix(f"{error.kind}: "), 1200),
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
    meter.spend(MARKUP)
    how = [word for word in ("attempted", "succeeded", "integrated") if getattr(finding, word)]
    return FindingView(
        finding.severity,
        meter.line(finding.exploit_id, 100),
        finding.turn,
        ", ".join(how),
        meter.show(finding.path or finding.command, 400),
        meter.show(finding.excerpt, 400),
    )
