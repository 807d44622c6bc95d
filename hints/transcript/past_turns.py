"""What a transcript holds, whatever dialect it was written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .status_line import Status

Place = tuple[int, int]
"""Where a call stands: its turn and its index in it, both from 0."""


@dataclass(frozen=True)
class PastCall:
    """One tool call and how it went.

    ``arguments`` is empty when they could not be read; ``problem`` (``code: text``) then says why. ``status`` is the
    environment's status line, or what the dialect's reader made of a result without one; its word is ``none`` when
    nothing answered the call. ``body`` is the result without its status line. ``raw`` are arguments that are no JSON
    object, as they were written.
    """

    id: str
    name: str
    status: Status
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    body: str = ""
    raw: str = ""


@dataclass(frozen=True)
class PastTurn:
    """One assistant message: what it said, its calls in order, and the texts of the other messages after it."""

    text: str
    calls: tuple[PastCall, ...] = ()
    notes: tuple[str, ...] = ()
