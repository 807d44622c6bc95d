"""Parser of actions: any JSON object that a model emits becomes text and calls; a broken call carries its problem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_CALLS = 16
"""Calls of a turn that are run."""
MAX_ANSWERS = 256
"""Calls of a turn that are answered one by one."""


@dataclass(frozen=True)
class Call:
    """One tool call. If it cannot be run, ``problem`` is ``code: message`` and ``raw`` holds its arguments as text."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    problem: str = ""
    raw: str = ""


@dataclass(frozen=True)
class ParsedTurn:
    """The text and the calls of a turn; ``calls`` is empty for a text-only turn."""

    text: str
    calls: list[Call]


def parse_turn(action: Mapping[str, Any], turn: int, *, strict: bool = True) -> ParsedTurn:
    """Normalise an action; ``turn`` (from 0) makes the ids of calls that have none. Never raises.

    With ``strict``, a seventeenth call and a second call with the same id are malformed; other harnesses run both. More
    calls than MAX_ANSWERS are one malformed call.
    """
    text = text_of(action.get("text") if action.get("text") not in (None, "") else action.get("content"))
    raw = items_of(action)
    if not isinstance(raw, list):
        problem = f"malformed_call: tool_calls must be a list of calls, got {_kind(raw)}"
        return ParsedTurn(text, [Call(f"call_{turn}_0", "", problem=problem)])
    if strict and len(raw) > MAX_ANSWERS:
        problem = f"malformed_call: {len(raw)} calls in a turn, of which at most {MAX_CALLS} are run; none was run"
        return ParsedTurn(text, [Call(f"call_{turn}_0", "", problem=problem)])
    calls, ids = [], set()
    for index, item in enumerate(raw):
        call = read_call(item, f"call_{turn}_{index}")
        if strict and index >= MAX_CALLS:
            call = Call(call.id, call.name, problem=f"malformed_call: at most {MAX_CALLS} calls in a turn; not run")
        elif strict and call.id in ids:
            call = Call(call.id, call.name, problem=f"malformed_call: duplicate id {call.id!r} in one turn; not run")
        ids.add(call.id)
        calls.append(call)
    return ParsedTurn(text, calls)


def items_of(action: Mapping[str, Any]) -> Any:
    """Return the calls of an action as it wrote them: a list unless malformed, with one item for the flat shape."""
    raw = action.get("tool_calls")
    if raw is not None and raw != []:
        return raw
    call = {"id": action.get("id"), "name": action.get("tool"), "arguments": action.get("arguments")}
    return [] if call["name"] is None else [call]


def body_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a call that holds name and arguments: its ``function``, or the call itself."""
    inner = item.get("function")
    return inner if isinstance(inner, Mapping) else item


def read_call(item: Any, fallback_id: str) -> Call:
    """Return a call in any shape: flat, nested in ``function``, or with ``tool`` for ``name``. Never raises."""
    if not isinstance(item, Mapping):
        return Call(fallback_id, "", problem=f"malformed_call: a call must be an object, got {_kind(item)}")
    written_id = item.get("id")
    call_id = clean(written_id)[:200] if isinstance(written_id, str) and written_id else fallback_id
    body = body_of(item)
    name = body.get("name", body.get("tool"))
    if not isinstance(name, str) or not name.strip():
        what = "names no tool" if name is None or name == "" else f"tool name must be a string, got {_kind(name)}"
        return Call(call_id, "", problem=f"malformed_call: the call {what}")
    name = clean(name.strip())[:100]
    written = body.get("arguments")
    arguments, problem = read_arguments(written)
    return Call(call_id, name, arguments, problem, raw=clean(written) if problem and isinstance(written, str) else "")


def read_arguments(raw: Any) -> tuple[dict[str, Any], str]:
    """Return arguments from what the model wrote, and their problem: ``malformed_call: ...``, or ''."""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, ""
    if isinstance(raw, str):
        try:
            raw = json.loads(raw, strict=False)
        except RecursionError:
            return {}, "malformed_call: arguments are nested too deeply"
        except ValueError as error:
            place = f" at line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            text = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
            return {}, f"malformed_call: arguments are not valid JSON: {text}{place}"
    if not isinstance(raw, Mapping):
        return {}, f"malformed_call: arguments must be a JSON object, got {_kind(raw)}"
    try:
        return {clean(str(name)): _cleaned(value) for name, value in raw.items()}, ""
    except RecursionError:
        return {}, "malformed_call: arguments are nested too deeply"


def text_of(raw: Any) -> str:
    """Return content as text: a list of OpenAI's content parts is joined, anything else but text is shown as JSON."""
    if raw is None:
        return ""
    if isinstance(raw, str):
        return clean(raw)
    if isinstance(raw, list) and all(isinstance(part, Mapping) for part in raw):
        return "".join(clean(part["text"]) for part in raw if isinstance(part.get("text"), str))
    try:
        return clean(json.dumps(raw, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return ""


def clean(text: str) -> str:
    """Return the text without lone surrogates, which JSON can hold and which cannot be encoded later."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, Mapping):
        return {clean(str(name)): _cleaned(item) for name, item in value.items()}
    return value


def _kind(value: Any) -> str:
    """Return JSON's name for a value's type."""
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "list", type(None): "null"}
    return names.get(type(value), "object")
