"""How a behaviour writes down what it found."""

from __future__ import annotations

from ....models import ErrorKind, ErrorTurn
from .log import At

EVIDENCE = 300


def mark(name: str, kind: ErrorKind, at: At, text: str, evidence: str) -> ErrorTurn:
    """An ErrorTurn for one call; its message is ``name: text``, by which the templates know it."""
    call = at.call
    return ErrorTurn(
        turn=at.turn,
        call_index=at.index,
        call_id=call.id,
        kind=kind,
        tool=call.name,
        message=f"{name}: {text}",
        evidence=evidence[:EVIDENCE],
    )


def mark_turn(name: str, kind: ErrorKind, turn: int, text: str, evidence: str) -> ErrorTurn:
    """An ErrorTurn for a whole turn."""
    return ErrorTurn(turn=turn, kind=kind, message=f"{name}: {text}", evidence=evidence.strip()[:EVIDENCE])


def name_of(error: ErrorTurn) -> str:
    """The behaviour that was marked; '' for an error that is none."""
    return error.message.partition(": ")[0] if error.kind in ("wasteful", "style", "false_claim") else ""
