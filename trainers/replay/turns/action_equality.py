"""Comparison of two actions: the tools that a turn calls, with normalised arguments, and a similarity in [0, 1].

Names, ids, paths and numbers are equal or not. Only texts of several words can be partly similar, word by word; in a
shell command that excludes programs, operators, paths, ids and option values. So two calls that differ in one id never
count as the same answer, however few letters differ. Neither do two actions with different executed values.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from ....hints.transcript.parsing import parse_turn
from ....hints.transcript.tool_roles import role
from ....hints.transcript.tool_schemas import parameters_of
from ...chat.tool_call_formats import FORMS, FUNCTION, extract_calls, text_arguments, with_typed_arguments
from .prefixes import plain_names, renamed

_TAG = "<tool_call>"
_PATHS = frozenset(("path", "file", "file_path", "filename"))
_REMARKS = frozenset(("summary",))
"""Arguments without an effect on the environment."""
_TIMEOUTS = frozenset(("timeout", "timeout_s"))
"""Arguments that similarity ignores: a timeout that is too short, or longer than allowed, may be the whole error."""
_EXPANDED = re.compile(r"[$`*?\[\]~#{}\\\n]")
"""Characters that a shell expands unless they are quoted: a command with one of them keeps its quotes."""
_EXACT_WORD = re.compile(r"[\d/=~]|::|\w\.\w|^\.")
"""Marks of a path, test id, number, version, assignment or ``--option=value``: such a word is equal or not."""
_OPERATOR = re.compile(r"[();<>|&\n]+")


@dataclass(frozen=True)
class CanonicalCall:
    """One tool call; ``arguments`` are sorted (name, normalised value) pairs, ``problem`` says why it is malformed."""

    tool: str
    arguments: tuple[tuple[str, Any], ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Canonical:
    """A turn's action; ``words`` is empty when it has calls, because the environment acts on calls alone."""

    calls: tuple[CanonicalCall, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of characters, which decides between equally good answers."""
        return len(repr(self))


def canonical(action: Mapping[str, Any], tools: Sequence[Any] = ()) -> Canonical:
    """Normalise an action as any model may emit it; ``tools`` are the schemas it was written for. Never raises."""
    parsed = parse_turn(action, 0)
    schemas = parameters_of(tools)
    if not parsed.calls:
        return Canonical(words=tuple(without_thought(parsed.text).casefold().split()))
    return Canonical(
        tuple(
            CanonicalCall(call.name, (("raw", call.raw),) if call.raw else (), call.problem)
            if call.problem
            else CanonicalCall(call.name, _arguments(call.name, call.arguments, schemas.get(call.name, {})))
            for call in parsed.calls
        )
    )


def similarity(one: Canonical, other: Canonical) -> float:
    """Return how similar two actions are, in [0, 1]; symmetric.

    It is 1 for equal actions, whatever their timeouts, and 0 when tools or the number of calls differ. Otherwise it is
    the product over calls and arguments: a mean would call five arguments similar when one of them is wrong.
    """
    if one == other:
        return 1.0
    if not one.calls and not other.calls:
        return _word_similarity(one.words, other.words)
    if len(one.calls) != len(other.calls):
        return 0.0
    return math.prod(_call_similarity(a, b) for a, b in zip(one.calls, other.calls, strict=True))


def is_same(
    one: Canonical, other: Canonical, tau: float, value: float | None = None, other_value: float | None = None
) -> bool:
    """Return whether two actions in one state count as the same answer.

    They do when they are equal, or when their similarity is at least ``tau`` and their executed values do not differ.
    An action that failed is the same as an equal one only: one word, or a longer timeout, may have fixed it.
    """
    if one == other:
        return True
    values = [known_value for known_value in (value, other_value) if known_value is not None]
    if len(set(values)) > 1 or any(known_value < 0 for known_value in values):
        return False
    return similarity(one, other) >= tau


def without_thought(text: str) -> str:
    """Return a turn's text without its ``<think>`` block."""
    return text.rpartition("</think>")[2].partition("<think>")[0].strip()


def wire_action(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the action for the wire: its calls, or its words when it has none, without the thought.

    Both sides of a pair are written this way: a teacher's thought is unknown, so thoughts would separate the sides by
    length. A turn with a malformed call keeps its calls as they were written (and ``raw``, where it is known); a turn
    that was cut inside its thought keeps the thought, because it has no action.
    """
    parsed = parse_turn(action, 0)
    if not parsed.calls:
        words = without_thought(parsed.text)
        return {"text": words if words or "</think>" in parsed.text else parsed.text}
    if any(call.problem for call in parsed.calls):
        fields = {key: action[key] for key in ("tool_calls", "tool", "arguments") if action.get(key) is not None}
        _, tag, written = without_thought(str(action.get("raw", ""))).partition(_TAG)
        return {"text": "", **fields, **({"raw": tag + written} if tag else {})}
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in parsed.calls]
    return {"text": "", "tool_calls": calls}


def read_answer(message: Mapping[str, Any], tools: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return a chat completion's message as an action: its native calls, or the calls in tags in its text.

    ``tools`` are the episode's own; the endpoint received them as ``State.plain_tools``.
    """
    native = message.get("tool_calls")
    text = without_thought(parse_turn({"text": message.get("content")}, 0).text)
    if native:
        names = {plain: name for name, plain in plain_names(tools).items()}
        calls = [renamed(call, names) for call in native] if isinstance(native, list) else native
        return {"text": text, "tool_calls": calls}
    words, calls = extract_calls(text, FORMS["qwen"])
    if FUNCTION in text:
        calls = [with_typed_arguments(call, text_arguments(tools)) for call in calls]
    return {"text": words, "tool_calls": calls} if calls else {"text": text}


def _arguments(tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Drop nulls, defaults and remarks. Types stay: ``"3"`` instead of 3 is an error by the schema."""
    properties = schema.get("properties")
    schemas = properties if isinstance(properties, Mapping) else {}
    pairs = []
    for name, value in sorted(arguments.items()):
        property_schema = schemas.get(name)
        default = property_schema.get("default") if isinstance(property_schema, Mapping) else None
        is_default = default is not None and type(value) is type(default) and bool(value == default)
        if value is not None and name not in _REMARKS and not is_default:
            pairs.append((name, _value(tool, name, value)))
    return tuple(pairs)


def _value(tool: str, name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    if name == "command" and role(tool) == "shell":
        return _command(value)
    if name in _PATHS and value:
        return ("path", posixpath.normpath(value.strip()))
    return ("text", value.rstrip())


def _command(text: str) -> tuple[str, ...]:
    """Split a shell command into words and operators (``a&&b`` is ``a && b``); at blanks when it cannot be parsed."""
    keeps_quotes = bool(_EXPANDED.search(text))
    lexer = shlex.shlex(text.strip(), posix=not keeps_quotes, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if keeps_quotes:
        lexer.whitespace = " \t\r"  # a new line ends a command
    try:
        return ("command", *lexer)
    except ValueError:
        return ("command", *text.split())


def _call_similarity(one: CanonicalCall, other: CanonicalCall) -> float:
    if one == other:
        return 1.0
    if one.tool != other.tool or one.problem or other.problem:
        return 0.0
    first, second = dict(one.arguments), dict(other.arguments)
    names = sorted({*first, *second} - _TIMEOUTS)
    return math.prod(_value_similarity(first.get(name), second.get(name)) for name in names)


def _value_similarity(one: Any, other: Any) -> float:
    if one == other:
        return 1.0
    if not isinstance(one, tuple) or not isinstance(other, tuple) or one[0] != other[0]:
        return 0.0
    if one[0] == "command":
        return _word_similarity(one[1:], other[1:]) if _exact_words(one[1:]) == _exact_words(other[1:]) else 0.0
    if one[0] == "path" or len(one[1].split()) < 2:
        return 0.0
    return _word_similarity(tuple(one[1].split()), tuple(other[1].split()))


def _exact_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command that must be equal, in order: programs, operators, paths, ids, numbers and option
    values. A word after an option counts as its value, because only the program could say more."""
    exact, before = [], ";"
    for word in words:
        begins = bool(_OPERATOR.fullmatch(before))  # a program, or the file of a redirection
        is_option_value = before.startswith("-") and not word.startswith("-")
        if begins or is_option_value or _OPERATOR.fullmatch(word) or _EXACT_WORD.search(word):
            exact.append(word)
        before = word
    return exact


def _word_similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return Ratcliff and Obershelp's ratio over words, below 1 unless they are equal; sorting makes it symmetric."""
    first, second = sorted((tuple(one), tuple(other)))
    ratio = SequenceMatcher(None, first, second, autojunk=False).ratio() if first or second else 1.0
    return ratio if first == second else min(ratio, 1 - 1e-9)
