"""Calls and results of a log before anything is judged: what each call asked for, and the text that answered it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..transcript.parsing import Call, clean

LATE_TURNS = 3
"""Turns after its call within which a result still finds that call."""


@dataclass
class DraftCall:
    """One call and its answer.

    ``content`` is ``None`` until the call is answered. ``failed`` is the harness's own flag, when it set one.
    ``untyped`` says that the format has no types for arguments: with ``values`` every value is a string, with
    ``text`` there is one string under the name ``input``.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    content: str | None = None
    failed: bool | None = None
    untyped: Literal["", "text", "values"] = ""
    raw: str = ""


@dataclass
class DraftTurn:
    """One assistant message: its text, its calls, and the texts of other messages after it."""

    text: str
    calls: list[DraftCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def draft_call(call: Call) -> DraftCall:
    """Return the draft of a parsed call, which has no answer yet."""
    return DraftCall(call.id, call.name, call.arguments, call.problem, raw=call.raw)


def attach_result(
    turns: Sequence[DraftTurn], call_id: str, name: str, content: str, failed: bool | None = None
) -> None:
    """Give a result to its call: the one with its id, else the next one of the last turn without a result.

    Calls with the same id are answered in order. A result that fits no call becomes a call without arguments.
    """
    waiting = [call for call in turns[-1].calls if call.content is None]
    target = next((call for call in waiting if call.id == call_id), None) if call_id else None
    if target is None and call_id:
        earlier = (call for turn in reversed(turns[-1 - LATE_TURNS : -1]) for call in turn.calls)
        target = next((call for call in earlier if call.content is None and call.id == call_id), None)
    if target is None:
        target = next((call for call in waiting if not name or not call.name or call.name == name), None)
    if target is None:
        target = DraftCall(clean(call_id), clean(name))
        turns[-1].calls.append(target)
    target.content, target.failed = content, failed


def failure_flag(message: Mapping[str, Any]) -> bool | None:
    """Return what a tool message says beside its content: ``is_error``, or a ``status`` as LangChain writes it."""
    flag, status = message.get("is_error"), message.get("status")
    if isinstance(flag, bool):
        return flag
    return {"error": True, "success": False}.get(status) if isinstance(status, str) else None
