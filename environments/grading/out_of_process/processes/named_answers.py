"""Arguments that repeat an earlier answer: a solution is sent the number of that call in place of the answer.

A test often passes on what it got, as in ``decode(encode(x))``. The recorded argument is then an answer of the task's
own solution, and a solution that reads all calls in advance would find the right answer there. So the argument is sent
as ``["a", number, path]``: the part at ``path`` of the answer that the solution itself gave to call ``number``. Where
that answer differs from the recorded one, the argument differs too, as it would in the test.

The text of this file also runs in the solution's process, on Python 3.8 and later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SHORTEST = 3
"""Fewest characters of a string and fewest items of a tuple that count as an answer: shorter ones occur by chance."""
MAX_FILLED = 4 * 1024 * 1024
"""Most characters of answers that are filled into the arguments of one test."""
_INNER_FORMS: dict[str, tuple[tuple[int, str], ...]] = {
    "t": ((1, "items"),),
    "F": ((1, "items"),),
    "I": ((1, "items"),),
    "l": ((2, "items"),),
    "S": ((2, "items"),),
    "d": ((2, "pairs"),),
    "D": ((1, "pairs"),),
    "o": ((3, "items"), (4, "one"), (5, "items"), (6, "pairs")),
    "O": ((4, "items"), (5, "pairs")),
    "h": ((2, "named"),),
    "B": ((2, "one"),),
    "fn": ((6, "cells"), (7, "named"), (8, "named")),
}
"""Positions of the forms inside a form, by tag. The private state of an opaque object is left out: solutions differ."""


def hidden(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return recorded calls as they are sent: without answers, and with the names of earlier answers as arguments."""
    names_of_answers: dict[str, list[Any]] = {}
    visible: set[str] = set()
    calls_hidden: list[dict[str, Any]] = []
    for number, call in enumerate(calls):
        arguments = [_named(form, names_of_answers) for form in call["arguments"]]
        keywords = {name: _named(form, names_of_answers) for name, form in call["keywords"].items()}
        calls_hidden.append({"target": call["target"], "arguments": arguments, "keywords": keywords})
        for form in [*arguments, *keywords.values()]:
            visible.update(_text_of(part) for _, part in _walk(form, []) if _is_telling(part))
        for path, part in _parts_of(call["answer"]):
            if _is_telling(part) and _text_of(part) not in visible:
                names_of_answers.setdefault(_text_of(part), ["a", number, path])
    return calls_hidden


def filled(call: Mapping[str, Any], answers: Sequence[Any]) -> dict[str, Any]:
    """Return a call in which the answers to earlier calls replace their names.

    Raises LookupError or TypeError where an answer has no such part.
    """
    keywords = {name: _filled(form, answers) for name, form in call["keywords"].items()}
    return {**call, "arguments": [_filled(form, answers) for form in call["arguments"]], "keywords": keywords}


def answered(calls: Sequence[Mapping[str, Any]], answers: Sequence[Any]) -> list[dict[str, Any]]:
    """Return recorded calls with a solution's answers, and with the arguments that the solution was really sent.

    The answers are a claim of the solution's process. The list ends before the first call whose arguments name an
    answer that is missing or too large.
    """
    calls_answered: list[dict[str, Any]] = []
    size = 0
    for call, question, answer in zip(calls, hidden(calls), answers):  # noqa: B905  of Python 3.10
        try:
            for _, number, path in _names_in(question):
                size += len(_text_of(_at(answers[number], path))) if size < MAX_FILLED else 0
            call_made = filled(question, answers[: len(calls_answered)])
        except (LookupError, TypeError):
            break
        if size >= MAX_FILLED:
            break
        calls_answered.append({**call, **call_made, "answer": answer})
    return calls_answered


def _is_telling(form: Any) -> bool:
    """Return whether a form is specific enough that an equal argument probably is this answer."""
    if isinstance(form, str):
        return len(form) >= SHORTEST
    if not isinstance(form, list):
        return type(form) is int and not 0 <= form <= 9
    if form[0] in ("t", "F"):
        return len(form[1]) >= SHORTEST or any(map(_is_telling, form[1]))
    if form[0] in ("l", "S", "d", "ba", "o"):
        return True
    return form[0] in ("i", "f", "c", "s") or form[0] == "b" and bool(form[1])


def _places(form: Any) -> Iterator[list[Any]]:
    """Yield the paths of the forms that a form holds directly."""
    for place, kind in _INNER_FORMS.get(form[0], ()) if isinstance(form, list) and isinstance(form[0], str) else ():
        held = form[place] if place < len(form) else None
        if kind == "one" and held is not None:
            yield [place]
        elif kind == "items":
            yield from ([place, i] for i in range(len(held or [])))
        elif kind == "pairs":
            yield from ([place, i, part] for i in range(len(held or [])) for part in (0, 1))
        elif kind == "named":
            yield from ([place, i, 1] for i, pair in enumerate(held or []) if len(pair) > 1)
        elif kind == "cells":
            yield from ([place, i, 1, 0] for i, (_, content) in enumerate(held or []) if content)


def _names_in(call: Mapping[str, Any]) -> Iterator[Any]:
    for form in [*call["arguments"], *call["keywords"].values()]:
        yield from (part for _, part in _walk(form, []) if isinstance(part, list) and part[0] == "a")


def _text_of(form: Any) -> str:
    return json.dumps(form, sort_keys=True)


def _at(form: Any, path: Sequence[Any]) -> Any:
    for part in path:
        form = form[part]
    return form


def _walk(form: Any, path: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    """Yield a form and all that it holds, with their paths."""
    yield path, form
    for place in _places(form):
        yield from _walk(_at(form, place), [*path, *place])


def _parts_of(answer: Mapping[str, Any]) -> Iterator[tuple[list[Any], Any]]:
    yield from _walk(answer["result"], ["result"])
    for number, form in enumerate(answer["after"] or []):
        yield from _walk(form, ["after", number])
    if answer["error"] is not None:
        yield ["error", 1], answer["error"][1]
        for number, form in enumerate(answer["error"][2] or []):
            yield from _walk(form, ["error", 2, number])


def _replaced(form: Any, change: Any) -> Any:
    """Return a copy of a form with the forms in it changed."""
    places = list(_places(form))
    if not places:
        return form
    copied = [_copied(part) for part in form]
    for place in places:
        _at(copied, place[:-1])[place[-1]] = change(_at(form, place))
    return copied


def _copied(form: Any) -> Any:
    return [_copied(part) for part in form] if isinstance(form, list) else form


def _named(form: Any, names_of_answers: Mapping[str, list[Any]]) -> Any:
    if _is_telling(form):
        name = names_of_answers.get(_text_of(form))
        if name is not None:
            return name
    return _replaced(form, lambda part: _named(part, names_of_answers))


def _filled(form: Any, answers: Sequence[Any]) -> Any:
    if isinstance(form, list) and form[0] == "a":
        if form[1] >= len(answers):
            raise LookupError(f"no answer to call {form[1]}")
        return _at(answers[form[1]], form[2])
    return _replaced(form, lambda part: _filled(part, answers))
