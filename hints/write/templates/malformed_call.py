"""Hint for a call that is not valid JSON."""

from __future__ import annotations

import json
import re

from ....models import Hint
from ..error_context import ErrorContext
from ..hint_text import make_hint, quote
from ..schema_text import signature


def hint(context: ErrorContext) -> Hint | None:
    """Show where the JSON of a call breaks, and what to write there instead."""
    call = context.call
    raw = call.raw if call is not None else ""
    name = context.error.tool or (call.name if call is not None else "")
    shape = signature(name, context.schemas[name]) if name in context.schemas else ""
    example = f"Its arguments are {shape}." if shape else "A call has a name and one JSON object of arguments."
    where = _where(raw, name)
    if where:
        return make_hint("malformed_call", *where, example)
    text = context.error.message.removeprefix("malformed_call: ").removeprefix("arguments are not valid JSON: ")
    start = f"Write the call as valid JSON: {text.rstrip('.')[:240]}."
    return make_hint("malformed_call", start, _advice_for_message(text), example)


def _where(raw: str, name: str) -> list[str]:
    """Return what is wrong at which place, and what to write instead; empty when the JSON is an object."""
    if not raw.strip():
        return []
    of_tool = f" of {name[:60]}" if name else ""
    try:
        value = json.loads(raw, strict=False)
    except json.JSONDecodeError as error:
        at_place = raw[error.pos : error.pos + 20]
        place = f"at line {error.lineno} column {error.colno}"
        if not at_place.strip() or error.msg.startswith("Unterminated string"):
            return [f"The JSON arguments{of_tool} end too early, {place}, after {quote(raw[-20:])}.", _unclosed(raw)]
        return [
            f"The arguments{of_tool} are not valid JSON {place}, at {quote(at_place)}: {error.msg}.",
            _advice_for_text(raw, error.pos),
        ]
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        return []
    kind = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
    return [f"The arguments{of_tool} must be one JSON object, not {kind}: {quote(raw, 40)}."]


def _unclosed(raw: str) -> str:
    """Return the advice to close what is still open at the end of the text."""
    closing, inside, escaped = [], False, False
    for character in raw:
        if inside:
            inside, escaped = character != '"' or escaped, character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "{[":
            closing.append("}" if character == "{" else "]")
        elif character in "}]" and closing:
            closing.pop()
    missing = ('"' if inside else "") + "".join(reversed(closing))
    return f"Close it with {quote(missing, 20)}." if missing else "Write it to the end."


def _advice_for_text(raw: str, at: int) -> str:
    """Return how to fix the usual mistakes, by the characters at the place."""
    following, before = raw[at:], raw[:at].rstrip()
    if raw.lstrip().startswith("```"):
        return "Leave out the code fence."
    if following.startswith("'"):
        return "JSON strings and names take double quotes."
    if following[:1] in "}]" and before.endswith(","):
        return "Leave out the comma before the closing bracket."
    if re.match(r"(True|False|None)\b", following):
        return "JSON writes true, false and null."
    if before.endswith((",", "{")) and following[:1].isalpha():
        return "Names take double quotes."
    if following.startswith(("//", "/*", "#")):
        return "JSON has no comments."
    if following.startswith("\\") or "\\" in raw[max(0, at - 2) : at + 1]:
        return "In a JSON string a backslash is written \\\\."
    if before.endswith(("}", "]")) and before.count("{") == before.count("}"):
        return "Send one object and nothing after it; make a second call for the rest."
    if before.endswith('"') or following[:1].isalpha():
        return 'A quote inside a string is written \\" and two fields are separated by a comma.'
    return "Check quotes, commas and brackets there."


def _advice_for_message(text: str) -> str:
    if "duplicate id" in text:
        return "Give each call of a turn a different id."
    if "calls in a turn" in text:
        return "Split them over several turns."
    if "names no tool" in text or "tool name" in text:
        return "Put the tool's name in `name`."
    if "must be a list" in text:
        return "Put the calls in a list."
    return ""
