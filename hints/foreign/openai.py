"""OpenAI tool calls: ``tool_calls`` in assistant messages, results with the role ``tool``. Also the older functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..transcript.parsing import parse_turn, text_of
from .drafts import DraftTurn, answer, drafted, flagged


def read(messages: Sequence[Mapping[str, Any]], *, strict: bool = False) -> list[DraftTurn]:
    """Turns with calls and results, matched by id; a result's name may be absent. ``strict`` as in ``parse_turn``."""
    turns: list[DraftTurn] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            parsed = parse_turn(_modern(message), len(turns), strict=strict)
            turns.append(DraftTurn(parsed.text, drafted(parsed.calls)))
        elif not turns:
            continue
        elif role in ("tool", "function"):
            call_id, name = message.get("tool_call_id"), message.get("name")
            answer(
                turns,
                call_id if isinstance(call_id, str) else "",
                name if isinstance(name, str) else "",
                text_of(message.get("content")),
                flagged(message),
            )
        elif role == "user":
            turns[-1].notes.append(text_of(message.get("content")))
    return turns


def _modern(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """``function_call``, which ``tool_calls`` replaced, as a call."""
    old = message.get("function_call")
    return {**message, "tool_calls": [old]} if isinstance(old, Mapping) and not message.get("tool_calls") else message
