"""Held-out inputs: single calls that are near those of the tests.

They are proposed for functions, and for methods of objects with their whole state, where arguments and results are
plain data. Each argument of a new call is one that a recorded call has at the same place, or a variation of it with the
same type and shape (see ``variation.py``). Some calls are *bold*: they go a little beyond what the tests show, and are
kept only where they separate a partial solution or the workspace from the task's own solution. The caller leaves out
calls that the task's own solution refuses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from ..forms import argument_forms, at, has, is_plain, is_whole, renumbered, type_of
from ..recorded_calls import Call
from ..values.places import canonical
from .constants import Constants
from .literals import alike
from .near_values import near
from .parameters import Options
from .variation import nearly, stretched, varied

PER_TARGET = 48
"""Most new calls for one function."""
POOL = 2 * PER_TARGET
"""Most calls from which those of a function are chosen; as many bold ones are proposed, and as many near constants."""
EQUAL = 0.2
"""Share of the calls that get equal values at two places, where tests show that both take the same values."""
NEARLY = 0.5
"""Share of the bold ones among them whose two values differ slightly: a solution may compare too little of them."""
_TRIES = 12


def held_out_calls(
    tests: Sequence[Sequence[Call]],
    choice: random.Random,
    is_bold: bool,
    texts: Sequence[str] = (),
    options: Options | None = None,
    first: int = 1,
    other_object: Callable[[Any, Sequence[Any]], Any] = lambda form, _: form,
    constants: Constants = Constants(),
) -> dict[str, list[Call]]:
    """Return new calls by target, none of which a test makes; ``choice`` draws them.

    With ``is_bold``, bold calls are proposed too. They have the key ``is_bold``, may have parts of other ``texts``, and
    may pass one of the ``options`` that no test passes, which their key ``option`` names. Some differ from a call of a
    test in one argument alone, which is near one of the ``constants``. Containers and objects are numbered from
    ``first`` on. ``other_object`` returns an object with other data, given those of other calls.
    """
    recorded: dict[str, list[Call]] = {}
    for calls in tests:
        for call in calls:
            recorded.setdefault(call["target"], []).append(call)
    calls_found: dict[str, list[Call]] = {}
    for target, calls in sorted(recorded.items()):
        shapes = [call for call in calls if call["answer"]["error"] is None and _is_plain_call(call)]
        if "@" not in target and shapes:
            keys = {_key(call) for call in calls}
            numbers = count(first)
            new = _new_calls(shapes, keys, choice, numbers, other_object)
            more = (options or {}).get(target, {})
            new += _new_calls(shapes, keys, choice, numbers, other_object, texts, more) if is_bold else []
            new += _near_calls(shapes, keys, choice, numbers, constants) if is_bold else []
            if new:
                calls_found[target] = new
    return calls_found


def _is_plain_call(call: Call) -> bool:
    """Return whether a call has plain data or whole objects as arguments, has a plain result and changes nothing."""
    answer, forms = call["answer"], argument_forms(call)
    is_given = all(is_plain(form) or is_whole(form) for form in forms)
    return answer["after"] is None and is_given and is_plain(answer["result"])


def _new_calls(
    shapes: Sequence[Call],
    keys: set[str],
    choice: random.Random,
    numbers: Iterator[int],
    other_object: Callable[[Any, Sequence[Any]], Any],
    texts: Sequence[str] | None = None,
    options: Mapping[str, Sequence[Any]] | None = None,
) -> list[Call]:
    """Return calls like ``shapes``, with the next of ``numbers``; their ``keys`` differ from those so far.

    They are bold unless ``texts`` is None; some of the bold ones pass one of the ``options``.
    """
    is_bold = texts is not None
    calls_found: list[Call] = []
    for _ in range(_TRIES * POOL):
        if len(calls_found) == POOL:
            break
        model = choice.choice(shapes)
        places: list[int | str] = [*range(len(model["arguments"])), *model["keywords"]]
        new: dict[int | str, Any] = {}
        plain_places = [place for place in places if is_plain(at(model, place))]
        beyond = choice.choice(plain_places) if is_bold and plain_places else None
        for place in places:
            others = [at(call, place) for call in shapes if has(call, place)]
            new[place] = choice.choice(others)
            if not is_plain(new[place]):  # the attributes of an object may belong together
                new[place] = other_object(new[place], others)
                continue
            plain = [item for item in others if is_plain(item)]
            if choice.random() < (0.2 if is_bold else 0.5):
                new[place] = varied(new[place], plain, choice)
            if place == beyond:
                more = alike(new[place], texts or ()) if isinstance(new[place], str) and choice.random() < 0.5 else []
                new[place] = stretched(new[place], more or plain, choice)
        if len(places) > 1 and choice.random() < EQUAL:
            one, other = choice.sample(places, 2)
            if _may_be_equal(shapes, one, other, new):
                new[other] = nearly(new[one], choice) if is_bold and choice.random() < NEARLY else new[one]
        option = with_option(options or {}, choice)
        call = {
            "target": model["target"],
            "arguments": [renumbered(new[place], numbers) for place in range(len(model["arguments"]))],
            "keywords": {**{name: renumbered(new[name], numbers) for name in model["keywords"]}, **option},
        }
        if _key(call) not in keys:
            keys.add(_key(call))
            call = {**call, "option": next(iter(option))} if option else call
            calls_found.append({**call, "is_bold": True} if is_bold else call)
    return calls_found


def _near_calls(
    shapes: Sequence[Call], keys: set[str], choice: random.Random, numbers: Iterator[int], constants: Constants
) -> list[Call]:
    """Return bold calls, each with one argument that differs from a call in ``shapes`` (see ``near_values.py``)."""
    calls_found: list[Call] = []
    for _ in range(_TRIES * POOL):
        if len(calls_found) == POOL:
            break
        model = choice.choice(shapes)
        places: list[int | str] = [*range(len(model["arguments"])), *model["keywords"]]
        plain_places = [place for place in places if is_plain(at(model, place))]
        if not plain_places:
            continue
        place = choice.choice(plain_places)
        new = {name: at(model, name) for name in places}
        new[place] = near(new[place], constants, choice)
        call = {
            "target": model["target"],
            "arguments": [renumbered(new[name], numbers) for name in range(len(model["arguments"]))],
            "keywords": {name: renumbered(new[name], numbers) for name in model["keywords"]},
            "is_bold": True,
        }
        if _key(call) not in keys:
            keys.add(_key(call))
            calls_found.append(call)
    return calls_found


def with_option(options: Mapping[str, Sequence[Any]], choice: random.Random) -> dict[str, Any]:
    """Return one of the options with one of its values, for a third of the calls."""
    if not options or choice.random() > 1 / 3:
        return {}
    name = choice.choice(sorted(options))
    return {name: choice.choice(options[name])}


def _may_be_equal(shapes: Sequence[Call], one: int | str, other: int | str, new: Mapping[int | str, Any]) -> bool:
    """Return whether two arguments have the same type, and texts one that tests show at both places."""
    if type_of(new[one]) != type_of(new[other]):
        return False
    if not isinstance(new[one], str):
        return True
    observed = [{canonical(at(call, place)) for call in shapes if has(call, place)} for place in (one, other)]
    return not observed[0].isdisjoint(observed[1])


def _key(call: Call) -> str:
    numbers = count(1)
    forms = [renumbered(form, numbers) for form in argument_forms(call)]
    return canonical([forms, list(call["keywords"])])
