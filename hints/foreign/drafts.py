"""What a dialect's reader finds before anybody judges it: turns, calls, and the text that answered each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..transcript.parsing import Call, clean

LATE = 3
"""Turns after which a result still finds its call."""


@dataclass
class Draft:
    """One call. ``content`` is ``None`` until it is answered; ``failed`` is the harness's own flag, when it set one;
    ``error`` are its words, when it marked all of the result as an error.

    ``loose`` arguments are not typed by the dialect: ``values`` are all strings, ``text`` is one under ``input``.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    content: str | None = None
    failed: bool | None = None
    error: str = ""
    loose: Literal["", "text", "values"] = ""
    raw: str = ""


@dataclass
class DraftTurn:
    text: str
    calls: list[Draft] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def drafted(calls: Sequence[Call]) -> list[Draft]:
    return [Draft(call.id, call.name, call.arguments, call.problem, raw=call.raw) for call in calls]


def answer(turns: Sequence[DraftTurn], call_id: str, name: str, content: str, failed: bool | None = None) -> None:
    """Give a result to its call: by id, or else to the next one without a result.

    Calls with the same id are answered in order. A result that nobody asked for becomes a call without arguments.
    """
    waiting = [call for call in turns[-1].calls if call.content is None]
    found = next((call for call in waiting if call.id == call_id), None) if call_id else None
    if found is None and call_id:
        late = (call for turn in reversed(turns[-1 - LATE : -1]) for call in turn.calls)
        found = next((call for call in late if call.content is None and call.id == call_id), None)
    if found is None:
        found = next((call for call in waiting if not name or not call.name or call.name == name), None)
    if found is None:
        found = Draft(clean(call_id), clean(name))
        turns[-1].calls.append(found)
    found.content, found.failed = content, failed


def flagged(message: Mapping[str, Any]) -> bool | None:
    """What a tool message says of itself beside its content: ``is_error``, or a ``status`` as LangChain writes it."""
    flag, status = message.get("is_error"), message.get("status")
    if isinstance(flag, bool):
        return flag
    return {"error": True, "success": False}.get(status) if isinstance(status, str) else None
