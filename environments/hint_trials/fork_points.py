"""Where hints would be said in the episodes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import RunError
from ...models import ErrorTurn, Hint
from ..rng import stream
from ..runs.reader import Stored
from .hint_policy import by_arm, context_of


@dataclass(frozen=True)
class Place:
    """Where a hint would be said: before turn ``turn`` of an episode."""

    stored: Stored
    index: int

    @property
    def error(self) -> ErrorTurn:
        return self.stored.episode.error_turns[self.index]

    @property
    def turn(self) -> int:
        return self.error.turn + (self.error.site == "recovery")

    @property
    def name(self) -> str:
        """Of this error turn alone."""
        return f"{self.seeded} {self.stored.episode.episode_id}"

    @property
    def seeded(self) -> str:
        """What draws depend on: the same when the same agent errs in the same task once more."""
        return f"{self.stored.key} #{self.index}"

    @property
    def is_reached(self) -> bool:
        """A fault in the last turn has no turn after it that a hint could change."""
        return self.turn < len(self.stored.episode.turns)

    def hints(self) -> dict[str, Hint]:
        return by_arm(self.error.hints)

    def context(self) -> dict[str, str]:
        return context_of(self.error, self.stored.episode.error_turns)


def every_place(episodes: Sequence[Stored]) -> list[Place]:
    """All error turns of a run, in order."""
    return [Place(one, index) for one in episodes for index in range(len(one.episode.error_turns))]


def chosen_places(episodes: Sequence[Stored], sample: int | None, seed: int) -> list[Place]:
    """The error turns that can be measured, or ``sample`` of them. Raises RunError when there is none."""
    every = every_place(episodes)
    places = [place for place in every if place.is_reached and place.error.hints]
    if not places:
        raise RunError(f"of {len(every)} error turns none has a hint and a turn that it could change")
    if sample is None or sample >= len(places):
        return places
    kept = set(stream(seed, "sample").sample(range(len(places)), sample))
    return [place for number, place in enumerate(places) if number in kept]
