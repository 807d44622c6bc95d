"""Hints for calls that the environment could not run: an unknown tool, wrong arguments, JSON that cannot be read."""

from __future__ import annotations

import json
import re

from ....models import Hint
from ....tool_names import by_likeness, nearest_name, same_action
from ...transcript.tool_schemas import argument_problem
from ..error_context import ErrorContext
from ..hint_text import LONGEST_LIST, listed, make_hint, quote, signature

_LIST = "The tools are: "
_ROOM = 700
_LONG_SIGNATURE = 300
_PATTERNS = ("pattern", "regex", "query", "search", "expression")
_REGEX = re.compile(r"regular expression|\bregexp?\b", re.I)
_POSITION = re.compile(r"at position (\d{1,6})")
_SPECIAL = "()[]{}*+?|^$.\\"


def tool_not_found(context: ErrorContext) -> Hint | None:
    """Name the tools that exist, and the one that was meant if only one can be."""
    error = context.error
    names = _available_tools(context)
    if not names:
        return None
    near = nearest_name(error.tool, names)
    if len(", ".join(names)) > _ROOM:
        names = by_likeness(error.tool, names)
    is_current = not error.injected and set(names) <= set(context.schemas)
    fitting = [name for name in context.tools_that_fit() if same_action(error.tool, name)] if is_current else []
    advice = f"; use {near}." if near else f"; its arguments fit {fitting[0]}." if len(fitting) == 1 else "."
    return make_hint(
        "tool_not_found",
        f"Reminder: the available tools are {listed(names, _ROOM)}.",
        f"There is no tool {error.tool[:60]!r}{advice}",  # prose: ok
        longest=LONGEST_LIST,
    )


def _available_tools(context: ErrorContext) -> list[str]:
    """Return the tools' names; a status line's list wins, since tools may have been withdrawn or renamed."""
    error, names = context.error, list(context.schemas)
    text = error.message if _LIST in error.message else error.evidence
    if _LIST not in text:
        return names
    stated = [name.strip() for name in text.partition(_LIST)[2].split(",")]
    return [name for name in stated if name] if len(stated) >= len(names) or error.injected else names


def invalid_args(context: ErrorContext) -> Hint | None:
    """Say which argument is wrong, and name another tool that the arguments fit, or show the tool's schema."""
    error, call = context.error, context.call
    schema = None if error.injected else context.schemas.get(error.tool)
    problem = ""
    if schema is not None and call is not None and not call.problem:
        problem = argument_problem(error.tool, schema, call.arguments)
    answer = error.message if call is None or not call.status.message else call.status.message
    reason = (problem or answer).strip()[:170].rstrip(".")
    if schema is None:
        return make_hint("invalid_args", f"Check the arguments of {error.tool[:60] or 'the call'}: {reason}.")
    end = "" if reason.endswith("?") else "."
    if _REGEX.search(answer):
        return make_hint("invalid_args", f"{reason}{end}", _escaped(context, answer))
    usage = signature(error.tool, schema)
    usage = usage if len(usage) < _LONG_SIGNATURE else f"{usage[:200]}..."
    fitting = context.tools_that_fit() if problem else []
    if not fitting:
        return make_hint("invalid_args", f"{reason}{end}", f"Call {usage}.")
    other = signature(fitting[0], context.schemas[fitting[0]]) if len(fitting) == 1 else listed(fitting, 150)
    meant = f"These arguments fit {other}: check whether {error.tool[:60]} is the tool that you need."
    return make_hint("invalid_args", f"{reason}{end}", meant, f"If it is, call {usage}.")


def _escaped(context: ErrorContext, answer: str) -> str:
    """Return which character of a pattern to escape, so that it stands for itself."""
    arguments = context.call.arguments if context.call is not None else {}
    pattern = next((value for name in _PATTERNS if isinstance(value := arguments.get(name), str)), "")
    place = _POSITION.search(answer)
    character = pattern[int(place[1]) : int(place[1]) + 1] if place else ""
    if character not in _SPECIAL:
        character = next((sign for sign in pattern if sign in _SPECIAL), "(")
    return f"To search for {quote(character)} itself, escape it: write `\\{character}` in the pattern."


def malformed_call(context: ErrorContext) -> Hint | None:
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
