"""Tool calls in a sampled turn, as each family of models writes them.

A call whose JSON is broken comes out with its raw text as arguments, so that the environment answers it as malformed:
what a model wrote never vanishes.
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
    """Gemma 4's arguments: JSON with bare keys, and strings between quotes of their own."""
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
    """How calls are written. What follows ``opening`` is a call or a list of calls, or, when that has a group ``name``,
    the arguments of the tool with this name. ``words``: other text may follow a call at once."""

    opening: re.Pattern[str]
    closing: re.Pattern[str]
    value: Callable[[str, int], tuple[Any, int]] = _json
    words: bool = False


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


def form_of(written: str, name: str, arguments: Mapping[str, Any]) -> Form | None:
    """The form that reads this call from what a template wrote for it."""
    for form in FORMS.values():
        read = [read_call(call, "") for call in calls_in(written, form)[1]]
        if [(call.name, call.arguments, call.problem) for call in read] == [(name, arguments, "")]:
            return form
    return None


def calls_in(text: str, form: Form) -> tuple[str, list[Call]]:
    """The text without its calls, and the calls. The last one may lack its closing mark: there generation stopped."""
    words, calls, position = "", [], 0
    while opened := form.opening.search(text, position):
        words += text[position : opened.start()]
        found, position = _body(text, opened, form)
        calls += found
    return (words + text[position:]).strip() if calls else text, calls


def bodies(text: str, form: Form) -> list[tuple[int, int]]:
    """Where the calls stand in a text, without their marks, up to the first that cannot be read."""
    found, position = [], 0
    while opened := form.opening.search(text, position):
        try:
            _, position = form.value(text, opened.end())
        except (ValueError, RecursionError):
            break
        found.append((opened.end(), len(text[:position].rstrip())))
    return found


def given(action: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """What stands for the name and the arguments in each call of an action, in the order of ``parse_turn``. A call that
    is no object is all arguments."""
    items, found = items_of(action), []
    for item in items if isinstance(items, list) else [items]:
        body = body_of(item) if isinstance(item, Mapping) else {"arguments": item}
        found.append((body.get("name", body.get("tool")), body.get("arguments")))
    return found


def as_text(value: Any) -> str:
    """A text as it is, else its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def texts_of(tools: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """The tool and name of each argument that is a text."""
    found = set()
    for tool in tools:
        function = tool.get("function", tool)
        for name, schema in function.get("parameters", {}).get("properties", {}).items():
            if isinstance(schema, Mapping) and "string" in str(schema.get("type", "string")):
                found.add((str(function.get("name")), str(name)))
    return found


def typed(call: Call, texts: Collection[tuple[str, str]]) -> Call:
    """A call whose arguments were written without quotes: JSON where they are no text by the tool's schema."""
    arguments = call["arguments"]
    if not isinstance(arguments, Mapping):
        return call
    values = {name: value if (call["name"], name) in texts else _value(value) for name, value in arguments.items()}
    return {**call, "arguments": values}


def _value(text: Any) -> Any:
    try:
        return json.loads(text, strict=False)
    except (TypeError, ValueError, RecursionError):
        return text


def _body(text: str, opened: re.Match[str], form: Form) -> tuple[list[Call], int]:
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
    """As it was written; what is no object has no name and is malformed."""
    if not isinstance(item, Mapping):
        return {"name": "", "arguments": json.dumps(item)}
    inner = body_of(item)
    call = {"name": inner.get("name"), "arguments": inner.get("arguments", inner.get("parameters"))}
    return {"id": item["id"], **call} if isinstance(item.get("id"), str) else call
