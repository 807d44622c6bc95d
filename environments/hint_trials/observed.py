"""Stored episodes after their error turns: how often there was a hint, and whether the next attempt worked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ...hints import PastTurn, error_kind, read, transcript
from ...hints.detect.error_kinds import worked
from ...hints.detect.recovery import is_new_attempt
from ...intervals import Interval, wilson
from ...models import Episode, ErrorTurn
from ..logs.stored import messages_of
from ..runs.reader import Progress, no_progress, read_run, stored_episodes

_BEHAVIOURS = ("wasteful", "style", "false_claim", "budget")


@dataclass
class KindMeasure:
    """Counts for one kind of error."""

    kind: str
    shown: bool | None
    """Whether annotations were shown to the agent; ``None`` when the rows do not say."""
    error_turns: int = 0
    hinted: int = 0
    """Error turns with a hint."""
    lengths: list[int] = field(default_factory=list, repr=False)
    """Characters of the first hint of each."""
    attempts: int = 0
    """Error turns after which the agent tried again."""
    succeeded: int = 0
    """Attempts that worked the first time."""

    @property
    def next_attempt(self) -> Interval | None:
        """Return the share of attempts that succeeded, with Wilson's interval; ``None`` without an attempt."""
        if not self.attempts:
            return None
        share = self.succeeded / self.attempts
        return Interval(share, *wilson(share, self.attempts))

    def row(self) -> dict[str, Any]:
        """Return the counts and shares as plain values for a table."""
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


def measure_run(run: Path, progress: Progress = no_progress) -> list[KindMeasure]:
    """Return the counts of a run's valid episodes, or of every episode that was read from a log. Raises RunError."""
    episodes = list(read_run(run, progress))
    if not any(stored.log is not None for stored in episodes):
        return measure((stored.episode, stored.shown) for stored in stored_episodes(run, progress))
    by_id = {stored.episode.episode_id: messages_of(stored) for stored in episodes}
    pairs = ((stored.episode, stored.shown) for stored in episodes)
    return measure(pairs, lambda episode: by_id[episode.episode_id])


def measure(
    episodes: Iterable[tuple[Episode, bool | None]],
    messages: Callable[[Episode], Sequence[Mapping[str, Any]]] = transcript,
) -> list[KindMeasure]:
    """Return the counts by kind and by whether annotations were shown (the second of each pair), sorted."""
    measures: dict[tuple[str, bool | None], KindMeasure] = {}
    for episode, shown in episodes:
        turns = read(messages(episode), episode.tools) if episode.error_turns else []
        for error in episode.error_turns:
            counts = measures.setdefault((error.kind, shown), KindMeasure(error.kind, shown))
            counts.error_turns += 1
            if error.hints:
                counts.hinted += 1
                counts.lengths.append(len(error.hints[0].text))
            succeeded = next_attempt(error, episode.error_turns, turns)
            counts.attempts += succeeded is not None
            counts.succeeded += bool(succeeded)
    return [measures[key] for key in sorted(measures, key=str)]


def next_attempt(error: ErrorTurn, errors: Sequence[ErrorTurn], turns: Sequence[PastTurn]) -> bool | None:
    """Return whether the next attempt after an error succeeded; ``None`` when there was no attempt.

    After the error of a call, the attempt is the next call for the same goal (``recovery.is_new_attempt``), and
    succeeds if it works. After a behaviour it is the next turn, and succeeds if it does not show the behaviour again.
    """
    if error.kind in _BEHAVIOURS:
        later = error.turn + 1
        is_again = any(other.turn == later and other.kind == error.kind for other in errors)
        return None if later >= len(turns) else not is_again
    if error.turn >= len(turns) or not 0 <= (error.call_index or 0) < len(turns[error.turn].calls):
        return None
    failed = turns[error.turn].calls[error.call_index or 0]
    injected = {(other.turn, other.call_index) for other in errors if other.injected}
    for number in range(error.turn, len(turns)):
        for index, call in enumerate(turns[number].calls):
            if (number, index) <= (error.turn, error.call_index or 0) or not is_new_attempt(failed, error.kind, call):
                continue
            has_worked = worked(call) and (error.kind != "output_limit" or error_kind(call) is None)
            return has_worked and (number, index) not in injected
    return None
