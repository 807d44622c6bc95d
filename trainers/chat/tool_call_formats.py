"""Formats in which families of models write tool calls: reads the calls out of a sampled turn.

A call with broken JSON is returned with its raw text as arguments, so that the environment answers it as malformed:
nothing that a model wrote is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...hints.transcript import hermes
from ...hints.transcript.parsing import body_of, items_of, read_call

Call = dict[str, Any]
_JSON = json.JSONDecoder(strict=False)
FUNCTION = hermes.FUNCTION
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_QUOTE = '<|"|>'


def _json(text: str, start: int) -> tuple[Any, int]:
    return _JSON.raw_decode(text, start)


def _gemma(text: str, start: int) -> tuple[Any, int]:
    """Read Gemma 4's arguments: JSON with bare keys, and strings between ``<|"|>`` quotes."""
    written, end = "", start
    for number, part in enumerate(text[start:].split(_QUOTE)):
        end += len(_QUOTE) * bool(number)
        if number % 2:
            written, end = written + json.dumps(part), end + len(part)
            continue
        inside, closed, _ = part.partition("<tool_call|>")
        written, end = written + _BARE_KEY.sub(r'\1"\2":', inside), end + len(inside)
        if closed:
            break
    return _JSON.decode(written), end


@dataclass(frozen=True)
class Form:
    """One format of calls."""

    opening: re.Pattern[str]
    """Start of a call, or of a list of calls; with a group ``name``, start of the arguments of the tool so named."""
    closing: re.Pattern[str]
    """End of a call."""
    value: Callable[[str, int], tuple[Any, int]] = _json
    """Reader of the value at a position in a text; returns the value and its end. Raises ValueError."""
    words: bool = False
    """Whether other text may follow a call without ``closing``."""


FORMS: dict[str, Form] = {
    "qwen": Form(hermes.OPENING, hermes.CLOSING, hermes.value_at),
    "mistral": Form(
        re.compile(
            r"\[TOOL_CALLS\]\s*(?:(?P<name>[\w.-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]\s*)?(?=\{|\[ARGS\]))?"
        ),
        re.compile(r"\s*(?:\Z|(?=\[TOOL_CALLS\]))"),
    ),
    "deepseek": Form(
        re.compile(
            r"(?:<｜tool▁calls▁begin｜>\s*)?<｜tool▁call▁begin｜>"
            r"(?:\w+<｜tool▁sep｜>)?(?P<name>[^\n<`]*?)\s*(?:<｜tool▁sep｜>|```json)\s*"
        ),
        re.compile(r"\s*(?:```\s*)?<｜tool▁call▁end｜>\s*(?:<｜tool▁calls▁end｜>)?"),
    ),
    "phi": Form(re.compile(r"<\|tool_call\|>\s*"), re.compile(r"\s*<\|/tool_call\|>")),
    "gemma": Form(re.compile(r"<\|tool_call>call:(?P<name>[\w.-]+)\s*"), re.compile(r"\s*<tool_call\|>"), _gemma),
    "llama": Form(
        re.compile(r'(?:<\|python_tag\|>|(?:^|;)[ \t]*(?=\{\s*"(?:name|type|function)"\s*:))\s*', re.MULTILINE),
        re.compile(r"\s*(?=;\s*\{)"),
        words=True,
    ),
}


def recognise_form(written: str, name: str, arguments: Mapping[str, Any]) -> Form | None:
    """Return the form that reads this call from what a template wrote for it; None when no form does."""
    for form in FORMS.values():
        calls = [read_call(call, "") for call in extract_calls(written, form)[1]]
        if [(call.name, call.arguments, call.problem) for call in calls] == [(name, arguments, "")]:
            return form
    return None


def extract_calls(text: str, form: Form) -> tuple[str, list[Call]]:
    """Return the text without its calls, and the calls. The last call may lack its end, where generation stopped."""
    words, calls, position = "", [], 0
    while opened := form.opening.search(text, position):
        words += text[position : opened.start()]
        more, position = _read_body(text, opened, form)
        calls += more
    return (words + text[position:]).strip() if calls else text, calls


def call_spans(text: str, form: Form) -> list[tuple[int, int]]:
    """Return start and end of each call's body in a text, up to the first one that cannot be read."""
    spans, position = [], 0
    while opened := form.opening.search(text, position):
        try:
            _, position = form.value(text, opened.end())
        except (ValueError, RecursionError):
            break
        spans.append((opened.end(), len(text[:position].rstrip())))
    return spans


def written_calls(action: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the name and arguments of each call as they were written, in the order of ``parse_turn``.

    A call that is not an object has no name; all of it counts as its arguments.
    """
    items, calls = items_of(action), []
    for item in items if isinstance(items, list) else [items]:
        body = body_of(item) if isinstance(item, Mapping) else {"arguments": item}
        calls.append((body.get("name", body.get("tool")), body.get("arguments")))
    return calls


def as_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def text_arguments(tools: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return (tool, argument) of every argument whose schema allows a string."""
    pairs = set()
    for tool in tools:
        function = tool.get("function", tool)
        for name, schema in function.get("parameters", {}).get("properties", {}).items():
            if isinstance(schema, Mapping) and "string" in str(schema.get("type", "string")):
                pairs.add((str(function.get("name")), str(name)))
    return pairs


def with_typed_arguments(call: Call, texts: Collection[tuple[str, str]]) -> Call:
    """Decode the arguments of a call that was written without quotes, except those in ``texts`` (text_arguments)."""
    arguments = call["arguments"]
    if not isinstance(arguments, Mapping):
        return call
    values = {name: value if (call["name"], name) in texts else _decoded(value) for name, value in arguments.items()}
    return {**call, "arguments": values}


def _decoded(text: Any) -> Any:
    try:
        return json.loads(text, strict=False)
    except (TypeError, ValueError, RecursionError):
        return text


def _read_body(text: str, opened: re.Match[str], form: Form) -> tuple[list[Call], int]:
    """Return the calls after ``opened`` and the position after them; a broken body becomes one malformed call."""
    start, name = opened.end(), opened.groupdict().get("name") or ""
    try:
        value, end = form.value(text, start)
        closed = form.closing.match(text, end)
        if closed is not None or form.words or not text[end:].strip():
            return _calls(name, value), closed.end() if closed else end
    except (ValueError, RecursionError):
        pass
    closed = form.closing.search(text, start)
    body = text[start : closed.start() if closed else len(text)]
    broken = {"name": name or hermes.name_in(body), "arguments": body.strip()}
    return [broken], max(closed.end(), start) if closed else len(text)


def _calls(name: str, value: Any) -> list[Call]:
    if name:
        return [{"name": name, "arguments": value}]
    return [_call(item) for item in (value if isinstance(value, list) else [value])]


def _call(item: Any) -> Call:
    """Return a call as it was written; an item that is not an object has no name and is malformed."""
    if not isinstance(item, Mapping):
        return {"name": "", "arguments": json.dumps(item)}
    inner = body_of(item)
    call = {"name": inner.get("name"), "arguments": inner.get("arguments", inner.get("parameters"))}
    return {"id": item["id"], **call} if isinstance(item.get("id"), str) else call
