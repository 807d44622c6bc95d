"""Actions made comparable: the tools a turn calls, with normalised arguments, and how alike two turns are.

Names, ids, paths and numbers are the same or not; only texts of several words can be alike in part, word by word, and
of a shell's command only what is neither a program, an operator, a path, an id nor an option's value. So two calls that
differ in one id never count as one answer, however few letters they differ in. Nor do two that execution told apart.
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

from ...hints.transcript.parsing import parse_turn
from ...hints.transcript.tool_roles import role
from ...hints.transcript.tool_schemas import parameters_of
from ..chat.tool_call_formats import FORMS, FUNCTION, calls_in, texts_of, typed
from .prefixes import plain_names, renamed

_TAG = "<tool_call>"
_PATHS = frozenset(("path", "file", "file_path", "filename"))
_REMARKS = frozenset(("summary",))
"""Arguments that change nothing in the world."""
_WAITS = frozenset(("timeout", "timeout_s"))
"""How long one waits for it: too short, or longer than a tool allows, may be all that was wrong with an action."""
_EXPANDED = re.compile(r"[$`*?\[\]~#{}\\\n]")
"""What a shell reads otherwise inside quotes than outside: such a command keeps its quotes."""
_NAMED = re.compile(r"[\d/=~]|::|\w\.\w|^\.")
"""What a path, a test's id, a number, a version, an assignment or ``--option=value`` has, and a plain word has not."""
_OPERATOR = re.compile(r"[();<>|&\n]+")


@dataclass(frozen=True)
class CanonicalCall:
    """``arguments`` are pairs of a name and a normalised value, by name. ``problem``: it could not be read."""

    tool: str
    arguments: tuple[tuple[str, Any], ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Canonical:
    """What a turn does. ``words`` counts only when it calls nothing: the environment acts on calls alone."""

    calls: tuple[CanonicalCall, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Characters, for the choice of the shorter one."""
        return len(repr(self))


def canonical(action: Mapping[str, Any], tools: Sequence[Any] = ()) -> Canonical:
    """An action as any model may emit it; ``tools`` are the schemas that it was made for. Never raises."""
    parsed = parse_turn(action, 0)
    schemas = parameters_of(tools)
    if not parsed.calls:
        return Canonical(words=tuple(spoken(parsed.text).casefold().split()))
    return Canonical(
        tuple(
            CanonicalCall(call.name, (("raw", call.raw),) if call.raw else (), call.problem)
            if call.problem
            else CanonicalCall(call.name, _arguments(call.name, call.arguments, schemas.get(call.name, {})))
            for call in parsed.calls
        )
    )


def similarity(one: Canonical, other: Canonical) -> float:
    """In [0, 1]: 1 for the same, however long it waits, 0 for different tools, for another number of calls, for a call
    and none.

    Else the product over calls, in their order, and their arguments: a mean would make five arguments alike of which
    one is wrong. Symmetric.
    """
    if one == other:
        return 1.0
    if not one.calls and not other.calls:
        return _alike(one.words, other.words)
    if len(one.calls) != len(other.calls):
        return 0.0
    return math.prod(_call_similarity(a, b) for a, b in zip(one.calls, other.calls, strict=True))


def is_same(
    one: Canonical, other: Canonical, tau: float, value: float | None = None, other_value: float | None = None
) -> bool:
    """Whether two actions in one state are one answer: the same action, or as alike as ``tau`` and not told apart by
    their executed values. What failed is one answer with the very same action only: one word, or a longer
    wait, may have mended it."""
    if one == other:
        return True
    known = [each for each in (value, other_value) if each is not None]
    if len(set(known)) > 1 or any(each < 0 for each in known):
        return False
    return similarity(one, other) >= tau


def spoken(text: str) -> str:
    """A turn's text without what was thought."""
    return text.rpartition("</think>")[2].partition("<think>")[0].strip()


def wire(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action alone, as the wire takes it: its calls, or its words when it has none, and no thinking.

    Both sides of a pair are written so, since a teacher's thoughts are not known: else length would tell them apart. A
    turn with a call that could not be read keeps its calls as they were written (``raw``, where that is known), one
    that was cut within its thought that thought: it is no action.
    """
    parsed = parse_turn(action, 0)
    if not parsed.calls:
        said = spoken(parsed.text)
        return {"text": said if said or "</think>" in parsed.text else parsed.text}
    if any(call.problem for call in parsed.calls):
        kept = {key: action[key] for key in ("tool_calls", "tool", "arguments") if action.get(key) is not None}
        _, tag, written = spoken(str(action.get("raw", ""))).partition(_TAG)
        return {"text": "", **kept, **({"raw": tag + written} if tag else {})}
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in parsed.calls]
    return {"text": "", "tool_calls": calls}


def read_answer(message: Mapping[str, Any], tools: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A chat completion's message as an action: its native calls, or else those in tags in its text. ``tools`` are the
    episode's, of which the endpoint was given ``State.plain_tools``."""
    native = message.get("tool_calls")
    text = spoken(parse_turn({"text": message.get("content")}, 0).text)
    if native:
        names = {plain: name for name, plain in plain_names(tools).items()}
        calls = [renamed(call, names) for call in native] if isinstance(native, list) else native
        return {"text": text, "tool_calls": calls}
    words, calls = calls_in(text, FORMS["qwen"])
    if FUNCTION in text:
        calls = [typed(call, texts_of(tools)) for call in calls]
    return {"text": words, "tool_calls": calls} if calls else {"text": text}


def _arguments(tool: str, given: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Without what is null, the default, or a remark. Types stay: ``"3"`` for 3 is an error that the schema finds."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    kept = []
    for name, value in sorted(given.items()):
        about = known.get(name)
        default = about.get("default") if isinstance(about, Mapping) else None
        if value is None or name in _REMARKS or (default is not None and _same(value, default)):
            continue
        kept.append((name, _value(tool, name, value)))
    return tuple(kept)


def _value(tool: str, name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    if name == "command" and role(tool) == "shell":
        return _command(value)
    if name in _PATHS and value:
        return ("path", posixpath.normpath(value.strip()))
    return ("text", value.rstrip())


def _command(text: str) -> tuple[str, ...]:
    """A shell's words and operators; ``a&&b`` is ``a && b``. One that no shell could read is split at blanks."""
    keep = bool(_EXPANDED.search(text))
    lexer = shlex.shlex(text.strip(), posix=not keep, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if keep:
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
    mine, theirs = dict(one.arguments), dict(other.arguments)
    return math.prod(_alike_values(mine.get(name), theirs.get(name)) for name in sorted({*mine, *theirs} - _WAITS))


def _alike_values(one: Any, other: Any) -> float:
    if one == other:
        return 1.0
    if not isinstance(one, tuple) or not isinstance(other, tuple) or one[0] != other[0]:
        return 0.0
    if one[0] == "command":
        return _alike(one[1:], other[1:]) if _named(one[1:]) == _named(other[1:]) else 0.0
    if one[0] == "path" or len(one[1].split()) < 2:
        return 0.0
    return _alike(tuple(one[1].split()), tuple(other[1].split()))


def _named(words: Sequence[str]) -> list[str]:
    """Of a command, in order, what is the same or not: programs, operators, paths, ids, numbers, options' values. A
    word after an option counts as its value, since only the program knows better."""
    found, before = [], ";"
    for word in words:
        begins = bool(_OPERATOR.fullmatch(before))  # a program, or the file that is read or written
        option = before.startswith("-") and not word.startswith("-")
        if begins or option or _OPERATOR.fullmatch(word) or _NAMED.search(word):
            found.append(word)
        before = word
    return found


def _alike(one: Sequence[str], other: Sequence[str]) -> float:
    """Ratcliff and Obershelp's ratio over words, below 1 for what is not the same. Its order is fixed: so symmetric."""
    first, second = sorted((tuple(one), tuple(other)))
    ratio = SequenceMatcher(None, first, second, autojunk=False).ratio() if first or second else 1.0
    return ratio if first == second else min(ratio, 1 - 1e-9)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
