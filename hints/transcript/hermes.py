"""Hermes and Qwen: ``<tool_call>{json}</tool_call>`` in the text, results between ``<tool_response>`` tags.

Qwen3-Coder's ``<function=name><parameter=key>value</parameter></function>`` inside the tags is read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..foreign.drafts import Draft, DraftTurn, answer, flagged
from .parsing import read_arguments, read_call, text_of

_OPEN = re.compile(r"<think>.*?(?:</think>|\Z)|(?P<call><tool_call>)\s*", re.DOTALL)
"""A thought or a call, whichever begins first: a call in a thought is none, and a thought in a call is text."""
_CLOSE = re.compile(r"\s*</tool_call>")
_FUNCTION = re.compile(r"\s*<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_BETWEEN = re.compile(r"\s*</tool_response>\s*<tool_response>\s*")
_DECODER = json.JSONDecoder(strict=False)


def read(messages: Sequence[Mapping[str, Any]]) -> list[DraftTurn]:
    """Turns with calls; results are in the order of the calls, in a message of their own or several in one."""
    turns: list[DraftTurn] = []
    results: list[tuple[str, bool | None]] = []
    for message in messages:
        text, role = text_of(message.get("content")), message.get("role")
        if role == "assistant":
            _give(turns, results)
            text = text_of(message.get("text")) or text
            turns.append(DraftTurn(text, list(_calls(text, len(turns)))))
            results = []
        elif turns and role in ("tool", "user"):
            found = _responses(text, len(turns[-1].calls))
            if found or role == "tool":
                results.extend((each, flagged(message)) for each in found or [text])
            else:
                turns[-1].notes.append(text)
    _give(turns, results)
    return turns


def _give(turns: list[DraftTurn], results: Sequence[tuple[str, bool | None]]) -> None:
    """Results to the last turn's calls. When there are as many as calls that could be read, no other was answered."""
    if not turns or not results:
        return
    calls = turns[-1].calls
    readable = [call for call in calls if not call.problem]
    targets = readable if len(results) == len(readable) < len(calls) else calls
    for number, (content, failed) in enumerate(results):
        name, inner = _named(content)
        if number < len(targets):
            targets[number].content, targets[number].failed = inner, failed
        else:
            answer(turns, "", name, inner, failed)


def _named(content: str) -> tuple[str, str]:
    """``{"name": ..., "content": ...}``, as Hermes was trained to read results, taken apart."""
    if content.startswith("{") and '"content"' in content:
        try:
            table = json.loads(content, strict=False)
        except (ValueError, RecursionError):
            return "", content
        if isinstance(table, dict) and set(table) <= {"name", "content", "tool_call_id"} and "content" in table:
            return str(table.get("name") or ""), text_of(table["content"])
    return "", content


def _responses(text: str, calls: int) -> list[str]:
    """The results in a message. A result may hold the tags itself, so there are never more of them than calls."""
    inner = text.strip()
    if not inner.startswith("<tool_response>"):
        return []
    inner = inner.removeprefix("<tool_response>").removesuffix("</tool_response>").strip("\n")
    return _BETWEEN.split(inner, maxsplit=max(calls - 1, 0)) if calls > 1 else [inner]


def _calls(text: str, turn: int) -> Iterator[Draft]:
    """Each tagged call. One at the very end may lack its closing tag: generation stops there."""
    position, index = 0, 0
    while opened := _OPEN.search(text, position):
        if opened["call"] is None:
            position = opened.end()
            continue
        start, fallback = opened.end(), f"call_{turn}_{index}"
        function = _FUNCTION.match(text, start)
        if function is not None:
            yield Draft(fallback, function[1], parameters(function[2]), loose="values")
            position = function.end()
        else:
            item, position = _decoded(text, start)
            yield _draft(item, fallback)
        closed = _CLOSE.match(text, position)
        position, index = closed.end() if closed else position, index + 1


def parameters(text: str) -> dict[str, Any]:
    """Of what stands in a function's tags: each value is a text."""
    values = {}
    for part in text.split("<parameter=")[1:]:
        name, _, value = part.partition(">")
        values[name.strip()] = value.partition("</parameter>")[0].removeprefix("\n").removesuffix("\n")
    return values


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """The JSON value at ``start`` and its end; broken JSON is the text up to the closing tag."""
    try:
        item, end = _DECODER.raw_decode(text, start)
        if _CLOSE.match(text, end) or not text[end:].strip():
            return item, end
    except (ValueError, RecursionError):
        pass
    end = text.find("</tool_call>", start)
    end = len(text) if end < 0 else end
    return text[start:end], end


def _draft(item: Any, fallback: str) -> Draft:
    if isinstance(item, str):
        _, problem = read_arguments(item.strip() or "(nothing)")
        name = re.search(r'"name"\s*:\s*"([^"\\]{1,100})"', item)
        problem = (
            problem.replace("arguments are not", "the call is not") or "malformed_call: the call is not valid JSON"
        )
        return Draft(fallback, name[1] if name else "", problem=problem)
    if isinstance(item, Mapping) and "arguments" not in item and isinstance(item.get("parameters"), Mapping):
        item = {**item, "arguments": item["parameters"]}
    call = read_call(item, fallback)
    return Draft(call.id, call.name, call.arguments, call.problem, raw=call.raw)
