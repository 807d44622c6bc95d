"""The arguments of recorded calls by place, and which of them are plain data.

Proposals ask for both hundreds of times, and an argument may be a tree of thousands of parts: each is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..forms import at, has, is_plain
from ..recorded_calls import Call


class ArgumentPool:
    """The arguments of some calls; the calls must not change."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._pools: dict[int | str, tuple[list[Any], list[Any], set[int]]] = {}

    def everything(self, place: int | str) -> list[Any]:
        """Return the arguments at a place: a position or a name."""
        return self._pool(place)[0]

    def plain(self, place: int | str) -> list[Any]:
        """Return those that are plain data."""
        return self._pool(place)[1]

    def is_plain(self, place: int | str, form: Any) -> bool:
        """Return whether one of the arguments at a place is plain data."""
        return id(form) in self._pool(place)[2]

    def _pool(self, place: int | str) -> tuple[list[Any], list[Any], set[int]]:
        if place not in self._pools:
            everything = [at(call, place) for call in self._calls if has(call, place)]
            plain = [form for form in everything if is_plain(form)]
            self._pools[place] = everything, plain, {id(form) for form in plain}
        return self._pools[place]
