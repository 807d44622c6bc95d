"""ErrorTurns of behaviours: the name of the behaviour is the first word of their message."""

from __future__ import annotations

from ....models import ErrorKind, ErrorTurn
from ...transcript.call_effects import CallEffects

BEHAVIOUR_KINDS: tuple[ErrorKind, ...] = ("wasteful", "style", "false_claim")
EVIDENCE = 300
"""Characters of evidence that an ErrorTurn keeps."""


def mark_call(name: str, kind: ErrorKind, effects: CallEffects, text: str, evidence: str) -> ErrorTurn:
    """Return an ErrorTurn for one call; its message is ``name: text``, from which the templates know it."""
    call = effects.call
    return ErrorTurn(
        turn=effects.turn,
        call_index=effects.index,
        call_id=call.id,
        kind=kind,
        tool=call.name,
        message=f"{name}: {text}",
        evidence=evidence[:EVIDENCE],
    )


def mark_turn(name: str, kind: ErrorKind, turn: int, text: str, evidence: str) -> ErrorTurn:
    """Return an ErrorTurn for a whole turn."""
    return ErrorTurn(turn=turn, kind=kind, message=f"{name}: {text}", evidence=evidence.strip()[:EVIDENCE])


def behaviour_of(error: ErrorTurn) -> str:
    """Return the name of the behaviour that was marked; '' for the error of a call."""
    return error.message.partition(": ")[0] if error.kind in BEHAVIOUR_KINDS else ""
