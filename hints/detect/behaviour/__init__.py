"""Behaviour: turns that worked and were a waste, or claimed what is not so. Each file finds one kind of it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from ....models import ErrorTurn
from ...transcript.past_turns import PastTurn, Place
from . import effort, false_claim, log, pages, repeat, reread, sleep, style
from .mark import name_of

_FINDERS = (repeat, reread, sleep, pages, effort, style)


def behaviours(
    turns: Sequence[PastTurn],
    tools: Sequence[Mapping[str, Any]],
    changed: Sequence[str] | None = None,
    struck: Container[Place] = (),
) -> list[ErrorTurn]:
    """ErrorTurns (``wasteful``, ``style``, ``false_claim``) in the order of turns and calls, without hints.

    ``changed`` are the paths of the frozen diff, ``None`` as long as there is none. ``struck`` are the calls
    that a fault injector hit: to make such a call again is no waste. What is said of a turn depends on
    that turn and those before it, so a transcript's beginning gets the same annotations as the whole. A behaviour is
    recovered from in the next turn that does not show it.
    """
    calls = log.calls(turns, struck)
    found = [error for finder in _FINDERS for error in finder.find(turns, calls)]
    found.extend(false_claim.find(turns, calls, changed))
    found.sort(key=lambda error: (error.turn, -1 if error.call_index is None else error.call_index))
    shown = {(name_of(error), error.turn) for error in found}
    for error in found:
        error.turns_to_recover = next(
            (turn - error.turn for turn in range(error.turn + 1, len(turns)) if (name_of(error), turn) not in shown),
            None,
        )
        recovered = error.turns_to_recover is not None
        error.recovered = None if not recovered and error.turn == len(turns) - 1 else recovered
    return found


__all__ = ["behaviours", "name_of"]
