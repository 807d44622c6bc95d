"""Behaviours: turns that worked but were a waste, over-long or missing texts, claims that the log contradicts."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ....models import ErrorTurn
from ...transcript.call_effects import effects_of
from ...transcript.past_turns import PastTurn, Place
from .false_claim import false_claims
from .marks import behaviour_of
from .style import style_errors
from .wasteful import effort_after_the_end, files_read_again, pages_of_output, repeated_calls, waiting

_FINDERS = (repeated_calls, files_read_again, waiting, pages_of_output, effort_after_the_end, style_errors)


def behaviours(
    turns: Sequence[PastTurn], changed: Sequence[str] | None = None, struck: Container[Place] = ()
) -> list[ErrorTurn]:
    """Return ErrorTurns (``wasteful``, ``style``, ``false_claim``) in the order of turns and calls, without hints.

    ``changed`` are the paths of the frozen diff, ``None`` before there is one. ``struck`` are the calls into
    which a fault was injected: repeating such a call is not a waste. The marks of a turn depend on that turn and those
    before it, so the beginning of a transcript gets the same annotations as the whole. A behaviour is recovered from
    in the next turn that does not show it.
    """
    effects = effects_of(turns, struck)
    errors = [error for finder in _FINDERS for error in finder(turns, effects)]
    errors.extend(false_claims(turns, effects, changed))
    errors.sort(key=lambda error: (error.turn, -1 if error.call_index is None else error.call_index))
    shown = {(behaviour_of(error), error.turn) for error in errors}
    for error in errors:
        later = (turn for turn in range(error.turn + 1, len(turns)) if (behaviour_of(error), turn) not in shown)
        recovery = next(later, None)
        error.turns_to_recover = None if recovery is None else recovery - error.turn
        is_open = recovery is None and error.turn == len(turns) - 1
        error.recovered = None if is_open else recovery is not None
    return errors


__all__ = ["behaviour_of", "behaviours"]
