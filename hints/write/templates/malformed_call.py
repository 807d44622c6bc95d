"""What is wrong with a call's JSON, and where."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import parameters_of
from . import schema
from .kit import call_of, quote
from .kit import hint as made

_PLACE = re.compile(r"line (\d+) column (\d+)")


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """Line, column and the offending characters when the raw arguments are known, else what the status line says."""
    if error.kind != "malformed_call":
        return None
    call = call_of(error, turns)
    raw = call.raw if call is not None else ""
    name = error.tool or (call.name if call is not None else "")
    shape = schema.one_line(name, parameters_of(tools)[name]) if name in parameters_of(tools) else ""
    example = f"Its arguments are {shape}." if shape else "A call has a name and one JSON object of arguments."
    where = _where(raw, name)
    if where:
        return made("malformed_call", *where, example)
    text = error.message.removeprefix("malformed_call: ").removeprefix("arguments are not valid JSON: ")
    return made(
        "malformed_call", f"Write the call as valid JSON: {text.rstrip('.')[:240]}.", _advice_for(text), example
    )


def _where(raw: str, name: str) -> list[str]:
    """What is wrong at which place, and what to write instead; nothing when the JSON is an object."""
    if not raw.strip():
        return []
    of = f" of {name[:60]}" if name else ""
    try:
        value = json.loads(raw, strict=False)
    except json.JSONDecodeError as error:
        found = raw[error.pos : error.pos + 20]
        place = f"at line {error.lineno} column {error.colno}"
        if not found.strip() or error.msg.startswith("Unterminated string"):
            return [f"The JSON arguments{of} end too early, {place}, after {quote(raw[-20:])}.", _unclosed(raw)]
        return [
            f"The arguments{of} are no valid JSON {place}, at {quote(found)}: {error.msg}.",
            _advice(raw, error.pos),
        ]
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        return []
    kind = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
    return [f"The arguments{of} must be one JSON object, not {kind}: {quote(raw, 40)}."]


def _unclosed(raw: str) -> str:
    """What is still open at the end of the text."""
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


def _advice(raw: str, at: int) -> str:
    """How to mend the usual mistakes, by the characters at the place."""
    found, before = raw[at:], raw[:at].rstrip()
    if raw.lstrip().startswith("```"):
        return "Leave out the code fence."
    if found.startswith("'"):
        return "JSON strings and names take double quotes."
    if found[:1] in "}]" and before.endswith(","):
        return "Leave out the comma before the closing bracket."
    if re.match(r"(True|False|None)\b", found):
        return "JSON writes true, false and null."
    if before.endswith((",", "{")) and found[:1].isalpha():
        return "Names take double quotes."
    if found.startswith(("//", "/*", "#")):
        return "JSON has no comments."
    if found.startswith("\\") or "\\" in raw[max(0, at - 2) : at + 1]:
        return "In a JSON string a backslash is written \\\\."
    if before.endswith(("}", "]")) and before.count("{") == before.count("}"):
        return "Send one object and nothing after it; make a second call for the rest."
    if before.endswith('"') or found[:1].isalpha():
        return 'A quote inside a string is written \\" and two fields are separated by a comma.'
    return "Check quotes, commas and brackets there."


def _advice_for(text: str) -> str:
    if "duplicate id" in text:
        return "Give each call of a turn an id of its own."
    if "calls in a turn" in text:
        return "Split them over several turns."
    if "names no tool" in text or "tool name" in text:
        return "Put the tool's name in `name`."
    if "must be a list" in text:
        return "Put the calls in a list."
    return ""
