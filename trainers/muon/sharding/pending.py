"""Updates that are computed when a bucket needs them, and dropped after the last one that does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from torch import Tensor

from .routes import Route


class PendingUpdates:
    """Momentum updates of parameters by their place, each computed once.

    At most the parameters of the buckets under way have a copy, not the whole model.

    Args:
        compute: returns the update of the parameter at a place; it also updates the momentum.
        number: number of parameters.
        routes: buckets in the order in which they are released.
    """

    def __init__(self, compute: Callable[[int], Tensor], number: int, routes: Sequence[Route]) -> None:
        self._compute = compute
        self._uses = Counter(place for route in routes for place in _places(route))
        self._waiting = set(range(number))
        self._values: dict[int, Tensor] = {}

    def __getitem__(self, place: int) -> Tensor:
        if place in self._waiting:
            self._waiting.remove(place)
            self._values[place] = self._compute(place)
        return self._values[place]

    def release(self, route: Route) -> None:
        """Drop the updates that no later bucket needs."""
        for place in _places(route):
            self._uses[place] -= 1
            if not self._uses[place]:
                self._values.pop(place, None)

    def finish(self) -> None:
        """Compute those that this rank has not needed, for the sake of their momentum."""
        for place in sorted(self._waiting):
            self._compute(place)
        self._waiting = set()


def _places(route: Route) -> set[int]:
    return {unit.index for unit in route.bucket.units}
