"""Held-out inputs: calls near those of the tests, in the domain that the tests show.

Only functions of modules whose recorded arguments and results are plain data get them. A new call takes each argument
from what a recorded call gave at the same place, or changes its digits and letters to others of the same kind, other
characters to such as a test shows there, and its numbers within the range that was seen; so a value keeps its type and
its shape. What the task's own solution refuses is left out by the caller.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Sequence
from typing import Any

from .places import canonical
from .recorded_calls import Call

PER_TARGET = 24
"""Most new calls for one function."""
_PLAIN = frozenset("ifcsbtlSFd")
_TRIES = 12


def held_out_calls(tests: Sequence[Sequence[Call]], choice: random.Random) -> dict[str, list[Call]]:
    """Return new calls by target, none of which a test makes; ``choice`` draws them."""
    recorded: dict[str, list[Call]] = {}
    for calls in tests:
        for call in calls:
            recorded.setdefault(call["target"], []).append(call)
    calls_found: dict[str, list[Call]] = {}
    for target, calls in sorted(recorded.items()):
        is_plain_function = "." not in target.partition(":")[2] and "@" not in target
        if is_plain_function and all(_is_plain_call(call) for call in calls):
            new = _new_calls(target, calls, choice)
            if new:
                calls_found[target] = new
    return calls_found


def _is_plain_call(call: Call) -> bool:
    answer = call["answer"]
    parts = [*call["arguments"], *call["keywords"].values(), answer["result"]]
    return answer["after"] is None and all(is_plain(part) for part in parts)


def is_plain(form: Any) -> bool:
    """Return whether a form is data alone: no object, function or iterator, and no container that occurs twice."""
    if not isinstance(form, list):
        return True
    if form[0] in ("i", "f", "c", "s", "b"):
        return True
    return form[0] in _PLAIN and all(map(is_plain, _parts(form)))


def _parts(form: list[Any]) -> Iterator[Any]:
    for part in form[-1]:
        yield from part if form[0] == "d" else [part]


def _new_calls(target: str, calls: Sequence[Call], choice: random.Random) -> list[Call]:
    keys = {_key(call) for call in calls}
    shapes = [call for call in calls if call["answer"]["error"] is None]
    calls_found: list[Call] = []
    for _ in range(_TRIES * PER_TARGET):
        if len(calls_found) == PER_TARGET or not shapes:
            break
        model = choice.choice(shapes)
        places: list[int | str] = [*range(len(model["arguments"])), *model["keywords"]]
        new: dict[int | str, Any] = {place: at(model, place) for place in places}
        for place in places:
            others = [at(call, place) for call in shapes if has(call, place)]
            new[place] = choice.choice(others)
            if choice.random() < 0.5:
                new[place] = varied(new[place], others, choice)
        numbers = iter(range(1, 1_000_000))
        call = {
            "target": target,
            "arguments": [renumbered(new[place], numbers) for place in range(len(model["arguments"]))],
            "keywords": {name: renumbered(new[name], numbers) for name in model["keywords"]},
        }
        if _key(call) not in keys:
            keys.add(_key(call))
            calls_found.append(call)
    return calls_found


def _key(call: Call) -> str:
    numbers = iter(range(1, 1_000_000))
    forms = [renumbered(form, numbers) for form in [*call["arguments"], *call["keywords"].values()]]
    return canonical([forms, list(call["keywords"])])


def has(call: Call, place: int | str) -> bool:
    """Return whether a call has an argument at a place: a position or a name."""
    return place < len(call["arguments"]) if isinstance(place, int) else place in call["keywords"]


def at(call: Call, place: int | str) -> Any:
    """Return a call's argument at a place."""
    return call["arguments"][place] if isinstance(place, int) else call["keywords"][place]


def varied(form: Any, others: Sequence[Any], choice: random.Random) -> Any:
    """Return a form of the same type and shape with other content."""
    if isinstance(form, bool) or form is None:
        return form
    if isinstance(form, int):
        observed = [item for item in others if type(item) is int]
        return choice.randint(min(observed), max(observed)) if observed else form
    if isinstance(form, str):
        marks = [mark for item in others if isinstance(item, str) for mark in item if _is_mark(mark)]
        return "".join(_other(character, marks, choice) for character in form)
    if form[0] == "f":
        seen_floats = [float(item[1]) for item in others if isinstance(item, list) and item[0] == "f"]
        finite = [value for value in seen_floats if abs(value) < 1e300]
        return ["f", repr(round(choice.uniform(min(finite), max(finite)), 4))] if finite else form
    if form[0] in ("l", "t"):
        items = list(form[-1])
        items_varied = [varied(item, items, choice) if choice.random() < 0.5 else item for item in items]
        if form[0] == "l" and choice.random() < 0.5:
            choice.shuffle(items_varied)
        return [*form[:-1], items_varied]
    return form


def _is_mark(character: str) -> bool:
    """Return whether a character is neither a letter, a digit nor a control character."""
    return not character.isalnum() and character.isprintable()


def _other(character: str, marks: Sequence[str], choice: random.Random) -> str:
    """Return another character of the same kind; of the other characters only those that a test shows at this place."""
    for group in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if character in group:
            return choice.choice(group)
    return choice.choice(marks) if marks and _is_mark(character) and choice.random() < 0.5 else character


def renumbered(form: Any, numbers: Iterator[int]) -> Any:
    """Return a form whose containers count from 1 on, as in a message of its own."""
    if not isinstance(form, list):
        return form
    tag = form[0]
    if tag in ("l", "S", "d"):
        number = next(numbers)
        content = (
            [[renumbered(key, numbers), renumbered(value, numbers)] for key, value in form[2]]
            if tag == "d"
            else [renumbered(item, numbers) for item in form[2]]
        )
        return [tag, number, content]
    if tag in ("t", "F"):
        return [tag, [renumbered(item, numbers) for item in form[1]]]
    return form
