"""Error turns of a run as places where a hint can be tried."""

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
    """A place where a hint can be tried: before a turn of a stored episode."""

    stored: Stored
    index: int
    """Number of the error turn among those of the episode."""

    @property
    def error(self) -> ErrorTurn:
        """Return the error turn."""
        return self.stored.episode.error_turns[self.index]

    @property
    def turn(self) -> int:
        """Return the turn before which the hint is given."""
        return self.error.turn + (self.error.site == "recovery")

    @property
    def name(self) -> str:
        """Return a name that no other error turn has."""
        return f"{self.seeded} {self.stored.episode.episode_id}"

    @property
    def seeded(self) -> str:
        """Return the key of random draws here; it is the same when the same agent makes this error in another run."""
        return f"{self.stored.key} #{self.index}"

    @property
    def is_reached(self) -> bool:
        """Return whether the hint could change a turn; after a fault in the last turn there is no turn left."""
        return self.turn < len(self.stored.episode.turns)

    def hints(self) -> dict[str, Hint]:
        """Return the candidates by name; of several hints with the same name, the first."""
        return by_arm(self.error.hints)

    def context(self) -> dict[str, str]:
        """Return what a policy may depend on; of the episode's other errors, only earlier ones count."""
        return context_of(self.error, self.stored.episode.error_turns)


def every_place(episodes: Sequence[Stored]) -> list[Place]:
    """Return all error turns of a run, in order."""
    return [Place(stored, index) for stored in episodes for index in range(len(stored.episode.error_turns))]


def chosen_places(episodes: Sequence[Stored], sample: int | None, seed: int) -> list[Place]:
    """Return the error turns that can be measured, or ``sample`` of them. Raises RunError when none can."""
    every = every_place(episodes)
    places = [place for place in every if place.is_reached and place.error.hints]
    if not places:
        raise RunError(
            f"none of the {len(every)} error turns has a hint and a turn that it could change; play a run with some"
        )
    if sample is None or sample >= len(places):
        return places
    numbers = set(stream(seed, "sample").sample(range(len(places)), sample))
    return [place for number, place in enumerate(places) if number in numbers]
