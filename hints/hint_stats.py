"""How stored episodes went on after their error turns: how often there was a hint, and what came next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..models import Episode, ErrorTurn
from .detect.annotate import transcript, tries_again
from .detect.error_kinds import error_kind, worked
from .foreign import read
from .intervals import Interval, wilson
from .transcript.past_turns import PastTurn

_BEHAVIOURS = ("wasteful", "style", "false_claim", "budget")


@dataclass
class KindMeasure:
    """One kind of error, and whether its annotations were shown to the agent (``None``: the rows do not tell).

    ``hinted`` counts the error turns with a hint. ``attempts`` are those after which the agent tried again,
    ``succeeded`` how many of these worked the first time.
    """

    kind: str
    shown: bool | None
    error_turns: int = 0
    hinted: int = 0
    lengths: list[int] = field(default_factory=list, repr=False)
    attempts: int = 0
    succeeded: int = 0

    @property
    def next_attempt(self) -> Interval | None:
        """The share of attempts that succeeded, with Wilson's interval; ``None`` without an attempt."""
        if not self.attempts:
            return None
        share = self.succeeded / self.attempts
        return Interval(share, *wilson(share, self.attempts))

    def row(self) -> dict[str, Any]:
        """Plain values; the characters are those of the first hint."""
        share = self.next_attempt
        return {
            "kind": self.kind,
            "shown": {True: "yes", False: "no", None: "unknown"}[self.shown],
            "error_turns": self.error_turns,
            "hinted": self.hinted,
            "hinted_share": self.hinted / self.error_turns,
            "median_chars": median(self.lengths) if self.lengths else None,
            "max_chars": max(self.lengths, default=None),
            "attempts": self.attempts,
            "succeeded": share and share.value,
            "low": share and share.low,
            "high": share and share.high,
        }


def measure(episodes: Iterable[tuple[Episode, bool | None]]) -> list[KindMeasure]:
    """By kind and by whether annotations were shown (the second of each pair), sorted.

    Where the rows tell it for some episodes only, the others are measured apart.
    """
    found: dict[tuple[str, bool | None], KindMeasure] = {}
    for episode, shown in episodes:
        turns = read(transcript(episode), episode.tools) if episode.error_turns else []
        for error in episode.error_turns:
            one = found.setdefault((error.kind, shown), KindMeasure(error.kind, shown))
            one.error_turns += 1
            if error.hints:
                one.hinted += 1
                one.lengths.append(len(error.hints[0].text))
            succeeded = next_attempt(error, episode.error_turns, turns)
            one.attempts += succeeded is not None
            one.succeeded += bool(succeeded)
    return [found[key] for key in sorted(found, key=str)]


def next_attempt(error: ErrorTurn, errors: Sequence[ErrorTurn], turns: Sequence[PastTurn]) -> bool | None:
    """Whether the next attempt after an error succeeded; ``None`` when there was none.

    For an error of a call it is the next call that ``tries_again``, and it succeeds by working. For a behaviour it is
    the next turn, and it succeeds by not being marked for it again.
    """
    if error.kind in _BEHAVIOURS:
        later = error.turn + 1
        return None if later >= len(turns) else not any(e.turn == later and e.kind == error.kind for e in errors)
    injected = {(other.turn, other.call_index) for other in errors if other.injected}
    for number in range(error.turn, len(turns)):
        for index, call in enumerate(turns[number].calls):
            if (number, index) <= (error.turn, error.call_index or 0):
                continue
            if not tries_again(call, error.tool, error.kind):
                continue
            fine = worked(call) and (error.kind != "output_limit" or error_kind(call) is None)
            return fine and (number, index) not in injected
    return None
