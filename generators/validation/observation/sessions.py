"""Sessions: a recorded call with the lines before it that a user has to type, for its objects and their state."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .outcomes import Outcomes

MAX_LINES = 8
"""Most lines of a session that is shown."""
MAX_CALLS = 20
"""Most lines of a session that is tried."""
MAX_LINE, MAX_SESSION = 300, 1500
_PLACE = re.compile("\0(\\d+)\0")
_IMPORT = re.compile(r"from (\S+) import (\w+)")
_TYPE_NAMES = {"function": "function", "method": "function", "partial": "function"}


@dataclass(frozen=True)
class RecordedCall:
    """One call that test code makes, as ``call_tracer`` records it; ``\\0number\\0`` stands for an object in texts."""

    text: str  # the expression or statement
    imports: Sequence[str]  # the imports that it needs, and functions that the test defines
    uses: Sequence[int]  # numbers of the objects that it uses
    receiver: int | None  # the object whose method it calls
    is_statement: bool  # whether it is an assignment or a deletion
    is_lazy: bool  # whether its result is an iterator
    makes: int | None  # the number of the object that it gives
    type: str  # the name of that object's class
    raised: bool  # whether it raised an exception
    silent: bool  # whether it gave None


@dataclass(frozen=True)
class Session:
    """Lines that a user can type; the last is the call."""

    imports: tuple[str, ...]  # import lines, then functions that the test defines
    lines: tuple[str, ...]  # the other lines
    raised: bool  # whether the call raised an exception in the test
    test: int = field(default=0, compare=False)  # the number of the test
    chosen: tuple[int, ...] = field(default=(), compare=False)  # the numbers of its calls in the test

    @property
    def call(self) -> str:
        """Return the last line."""
        return self.lines[-1]

    def outcomes_of_lines(self, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes without those of the imports; none where a line before the last one raised an error."""
        return outcomes[len(self.imports) :] if len(outcomes) == len(self.imports) + len(self.lines) else ()


def recorded_calls(records: Sequence[Mapping[str, Any]]) -> list[RecordedCall]:
    """Return the calls of a test from the records of ``call_tracer``."""
    return [RecordedCall(**record) for record in records]


def sessions_of(calls: Sequence[RecordedCall], test: int = 0) -> list[Session]:
    """Return a test's calls as sessions, in the order of the calls.

    A call is tried with the construction of its objects alone, with the silent calls of their methods before it (these
    usually change them), with all calls of their methods, and with all calls that use them.
    """
    sessions: dict[Session, None] = {}
    for index in range(len(calls)):
        for chosen in _choices(calls, index):
            session = _session(calls, chosen)
            if session is not None:
                sessions[replace(session, test=test)] = None
    return list(sessions)


def length(session: Session) -> tuple[int, str]:
    """Return how much a reader has to read; every further line costs as much as 40 characters."""
    return 40 * len(session.lines) + sum(map(len, session.lines)), "\n".join(session.lines)


def shortened(calls: Sequence[RecordedCall], session: Session) -> Iterator[Session]:
    """Yield a session without one of the lines that it does not need for its objects, for each of these lines."""
    questions = {number for number in session.chosen[:-1] if not calls[number].silent and calls[number].makes is None}
    for dropped in [questions, *({number} for number in reversed(session.chosen[:-1]))]:
        without = {other for number in dropped for other in _with_users(calls, number, session.chosen)}
        chosen = _with_makers(calls, set(session.chosen) - without)
        if len(chosen) < len(session.chosen) and session.chosen[-1] in chosen:
            shorter = _session(calls, sorted(chosen))
            if shorter is not None:
                yield replace(shorter, test=session.test)


def _with_users(calls: Sequence[RecordedCall], number: int, chosen: Sequence[int]) -> set[int]:
    """Return a call with those of ``chosen`` that cannot be built without its object."""
    result = {number}
    for other in chosen:
        if any(calls[item].makes in calls[other].uses for item in result):
            result.add(other)
    return result


def _choices(calls: Sequence[RecordedCall], index: int) -> Iterator[list[int]]:
    minimum = _with_makers(calls, {index})
    objects = {calls[number].makes for number in minimum if number != index}
    before = [n for n in range(index) if n not in minimum and not calls[n].raised]
    methods = [n for n in before if calls[n].receiver in objects]
    users = list(methods)
    for n in before:
        if objects & set(calls[n].uses):
            users.append(n)
            objects.add(calls[n].makes)
    for more in ([], [n for n in methods if calls[n].silent], methods, users):
        chosen = _with_makers(calls, {*minimum, *more})
        if max(chosen) == index and len(chosen) <= MAX_CALLS:
            yield sorted(chosen)


def _with_makers(calls: Sequence[RecordedCall], chosen: set[int]) -> set[int]:
    """Return the calls with those that make the objects they use."""
    makers = {call.makes: number for number, call in enumerate(calls) if call.makes is not None}
    result, waiting = set(chosen), list(chosen)
    while waiting:
        for number in calls[waiting.pop()].uses:
            if makers[number] not in result:
                result.add(makers[number])
                waiting.append(makers[number])
    return result


def _session(calls: Sequence[RecordedCall], chosen: Sequence[int]) -> Session | None:
    """Return the session of the chosen calls; None when it is long or two imports have the same name."""
    imports = _imports({line for number in chosen for line in calls[number].imports})
    if imports is None:
        return None
    texts = {number: calls[number].text for number in chosen}
    last = calls[chosen[-1]]
    if last.is_lazy:
        texts[chosen[-1]] = f"list({last.text})"
    for number in chosen[:-1]:
        _inline(calls[number], number, texts)
    used_names = {word for line in imports for word in re.findall(r"\w+", line)}
    names: dict[str, str] = {}
    lines: list[str] = []
    for number, text in texts.items():
        line = _PLACE.sub(lambda match: names[match[1]], text)
        number_made = calls[number].makes
        if (
            number != chosen[-1]
            and number_made is not None
            and any(f"\0{number_made}\0" in other for other in texts.values())
        ):
            names[str(number_made)] = _variable(calls[number].type, used_names)
            line = f"{names[str(number_made)]} = {line}"
        lines.append(line)
    if any(len(line) > MAX_LINE for line in lines) or sum(map(len, lines)) > MAX_SESSION:
        return None
    return Session(tuple(imports), tuple(lines), last.raised, chosen=tuple(chosen))


def _inline(call: RecordedCall, number: int, texts: dict[int, str]) -> None:
    """Write the construction of an object where the object is used, if that is one place and the line stays short."""
    place = f"\0{call.makes}\0"
    users = [user for user, text in texts.items() if place in text]
    if call.makes is None or len(users) != 1 or texts[users[0]].count(place) != 1:
        return
    combined = texts[users[0]].replace(place, texts[number])
    following = [user for user in texts if user > number]
    is_call = isinstance(_expression(texts[number]), ast.Call)
    if is_call and not call.is_lazy and len(combined) <= 79 and following[0] == users[0]:
        texts[users[0]] = combined
        del texts[number]


def _expression(text: str) -> ast.expr | None:
    """Return the syntax tree of an expression; None for a statement."""
    body = ast.parse(_PLACE.sub(r"_\1", text)).body
    return body[0].value if isinstance(body[0], ast.Expr) else None


def _imports(lines: set[str]) -> list[str] | None:
    """Return import lines, one for each module, then functions of the test; None when two bind the same name."""
    names: dict[str, list[str]] = {}
    definitions = [line for line in sorted(lines) if line.startswith("def ")]
    result = [line for line in sorted(lines) if not _IMPORT.fullmatch(line) and line not in definitions]
    for line in sorted(lines):
        if match := _IMPORT.fullmatch(line):
            names.setdefault(match[1], []).append(match[2])
    bound = [name for group in names.values() for name in group] + [line.split()[-1] for line in result]
    bound += [line[len("def ") :].partition("(")[0].strip() for line in definitions]
    if len(bound) != len(set(bound)) or set(bound) & set(dir(builtins)) - {"open"} and _hides_builtin(bound):
        return None
    froms = [f"from {module} import {', '.join(group)}" for module, group in sorted(names.items())]
    return [*result, *froms, *definitions]


def _hides_builtin(bound: Sequence[str]) -> bool:
    """Return whether an import would hide a builtin that forms of values use."""
    return bool({"list", "set", "frozenset", "slice", "str", "len", "bool", "int", "float", "repr"} & set(bound))


def _variable(kind: str, used_names: set[str]) -> str:
    """Return a name for an object of a class, and add it to the names in use."""
    plain = _TYPE_NAMES.get(kind, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower().strip("_"))
    options = [plain, *(f"{plain}{number}" for number in range(2, 20)), "result", "value"]
    name = next(
        name
        for name in options
        if name.isidentifier()
        and not keyword.iskeyword(name)
        and name not in used_names
        and not hasattr(builtins, name)
    )
    used_names.add(name)
    return name
