"""Turns and calls of a transcript, in whatever dialect it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .status_line import Status

Place = tuple[int, int]
"""The place of a call: its turn and its index in that turn, both from 0."""


@dataclass(frozen=True)
class PastCall:
    """One tool call and its outcome.

    ``arguments`` is empty when they could not be read; ``problem`` (``code: text``) then says why. ``status`` is the
    environment's status line, or what ``foreign`` concluded from a result without one; its word is ``none`` when
    nothing answered the call. ``body`` is the result without its status line. ``raw`` holds arguments that are not a
    JSON object, as they were written.
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
    """One assistant message: its text, its calls in order, and the texts of the other messages after it."""

    text: str
    calls: tuple[PastCall, ...] = ()
    notes: tuple[str, ...] = ()
