"""Items of OpenAI's Responses API as messages in OpenAI's chat shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import plain_text
from .record import Message, objects, string

CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "local_shell_call_output"))


def is_items(value: Any) -> bool:
    """Return whether a list holds items of the Responses API that no list of chat messages holds."""
    kinds = {string(item.get("type")) for item in objects(value)}
    return bool(kinds & (CALLS | OUTPUTS | {"reasoning"}))


def messages_of(items: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the items as messages. Items up to the first tool output are one turn; a second text starts another."""
    messages: list[Message] = []
    for item in items:
        kind = string(item.get("type")) or "message"
        if kind == "reasoning":
            text = plain_text(item.get("summary")) or plain_text(item.get("content"))
            if text:
                messages.append({"role": "assistant", "content": "", "reasoning_content": text})
        elif kind in CALLS:
            _open_turn(messages).setdefault("tool_calls", []).append(_call(kind, item))
        elif kind in OUTPUTS:
            content = plain_text(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": string(item.get("call_id")), "content": content})
        elif kind == "message":
            _add_text(messages, item)
    return messages


def _call(kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call; the input of a custom tool is free text, not JSON."""
    call_id, name = string(item.get("call_id")), item.get("name")
    if kind == "custom_tool_call":
        return {"id": call_id, "name": name, "arguments": {"input": string(item.get("input"))}}
    if kind == "local_shell_call":
        return {"id": call_id, "name": "local_shell", "arguments": item.get("action")}
    return {"id": call_id, "name": name, "arguments": item.get("arguments")}


def _open_turn(messages: list[Message]) -> Message:
    """Return the assistant message that further calls belong to."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _add_text(messages: list[Message], item: Mapping[str, Any]) -> None:
    role, text = string(item.get("role")) or "assistant", plain_text(item.get("content"))
    last = messages[-1] if messages else {}
    has_only_thoughts = last.get("role") == "assistant" and not last.get("content") and "tool_calls" not in last
    if role == "assistant" and has_only_thoughts:
        last["content"] = text
    else:
        messages.append({"role": role, "content": text})
