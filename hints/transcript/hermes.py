"""Parser of Hermes and Qwen tool calls: ``<tool_call>{json}</tool_call>`` in a text.

Qwen3-Coder's ``<function=name><parameter=key>value</parameter></function>`` inside the tags is read too. The strings of
a call may hold the tags themselves. The last call may lack its closing tag, because generation stops there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OPENING = re.compile(r"<tool_call>\s*")
CLOSING = re.compile(r"\s*</tool_call>")
FUNCTION = "<function="
_FUNCTION_END = re.compile(r"</function>\s*(?=</tool_call>|\Z)")
_THOUGHT_OR_CALL = re.compile(r"<think>.*?(?:</think>|\Z)|(?P<call><tool_call>)\s*", re.DOTALL)
"""A thought or a call, whichever begins first: a call in a thought is not a call, and a thought in a call is text."""
_NAME = re.compile(r'"name"\s*:\s*"([^"\\\n]{1,100})|<function=([^>\s]{1,100})')
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class TaggedCall:
    """One call as it stands between its tags.

    ``value`` is the JSON value, or the name and arguments of a function; it is ``None`` for a ``broken`` call. ``text``
    is what the tags hold, ``end`` the position behind the closing tag. ``is_function`` marks Qwen3-Coder's form, in
    which every argument is a string.
    """

    value: Any
    text: str
    end: int
    broken: bool = False
    is_function: bool = False


def tagged_calls(text: str) -> list[TaggedCall]:
    """Return the calls of a text in order, without those inside ``<think>`` tags."""
    calls: list[TaggedCall] = []
    position = 0
    while opened := _THOUGHT_OR_CALL.search(text, position):
        position = opened.end()
        if opened["call"] is not None:
            calls.append(call_at(text, position))
            position = calls[-1].end
    return calls


def call_at(text: str, start: int, ends: Sequence[str] = ("</tool_call>",)) -> TaggedCall:
    """Return the call whose opening tag ends at ``start``. A broken call reaches to the first of ``ends``."""
    try:
        value, end = value_at(text, start)
        closed = CLOSING.match(text, end)
        if closed is not None or not text[end:].strip():
            is_function = text.startswith(FUNCTION, start)
            return TaggedCall(value, text[start:end], closed.end() if closed else len(text), is_function=is_function)
    except (ValueError, RecursionError):
        pass
    end = min((position for mark in ends if (position := text.find(mark, start)) >= 0), default=len(text))
    closed = CLOSING.match(text, end)
    return TaggedCall(None, text[start:end].rstrip(), closed.end() if closed else end, broken=True)


def value_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value or the function at ``start``, and the position behind it.

    A function becomes ``{"name": ..., "arguments": {...}}``. Raises ValueError or RecursionError for anything else.
    """
    if not text.startswith(FUNCTION, start):
        return _DECODER.raw_decode(text, start)
    closed = _FUNCTION_END.search(text, start)
    name, _, inside = text[start + len(FUNCTION) : closed.start() if closed else start].partition(">")
    if closed is None or name.split() != [name]:
        raise ValueError("the function is not closed, or has no name")
    return {"name": name, "arguments": _parameters(inside)}, closed.start() + len("</function>")


def name_in(broken: str) -> str:
    """Return the tool's name in the text of a broken call; '' when it names no tool."""
    name = _NAME.search(broken)
    return (name[1] or name[2]) if name else ""


def _parameters(text: str) -> dict[str, str]:
    """Return the values between ``<parameter=key>`` tags; each is a string."""
    values = {}
    for part in text.split("<parameter=")[1:]:
        name, _, value = part.partition(">")
        values[name.strip()] = value.partition("</parameter>")[0].removeprefix("\n").removesuffix("\n")
    return values
