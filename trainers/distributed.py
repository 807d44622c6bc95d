"""What the ranks of a run have in common: one that stopped alone would leave the others waiting for it.

Every rank must ask, at the same place. With one rank nothing is sent, and nothing waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from torch import distributed

T = TypeVar("T")
N = TypeVar("N", int, float)
E = TypeVar("E", bound=Exception)


def gathered(mine: T) -> list[T]:
    """What each rank gives, in their order; small, and to be pickled."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return [mine]
    found: list[T] = [mine] * distributed.get_world_size()
    distributed.all_gather_object(found, mine)
    return found


def together(do: Callable[[], T], failure: type[E]) -> T:
    """What ``do`` gives here. Where it fails so on one rank, it fails on all."""
    found: list[T] = []
    mine: E | None = None
    try:
        found.append(do())
    except failure as error:
        mine = error
    told = agreed(None if mine is None else str(mine))
    if told is not None:
        raise mine or failure(told)
    return found[0]


def summed(counts: Sequence[N]) -> list[N]:
    """Each count, over all ranks."""
    return [sum(column) for column in zip(*gathered(list(counts)), strict=True)]


def agreed(mine: T | None) -> T | None:
    """The same on all ranks: what the first one says that says anything."""
    return next((each for each in gathered(mine) if each is not None), None)
