"""Held-out sequences: the calls of a whole test, repeated with other data in their arguments.

They are added where too few calls are recorded, or all have one answer, so that a guess could satisfy them. A sequence
uses the objects and functions that the test made and changes plain arguments, as ``inputs.py`` does for single calls.
After it the solution is asked for the text of each object that a call returned. Only data is compared, because the
private state of an object differs between solutions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, zip_longest
from typing import Any

from ..forms import argument_forms, at, is_object, renumbered
from ..judging.equal_data import comparable, plain_data
from ..judging.spoilt_arguments import spoilt_attributes
from ..recorded_calls import QUESTIONS, Call
from ..values.places import canonical
from .argument_pool import ArgumentPool
from .inputs import with_option
from .parameters import Options, is_free
from .value_objects import IsValueClass, other_object
from .variation import varied

PROPOSED = 72
"""Most sequences that are tried."""
KEPT = 24
"""Most sequences of a record."""
LONGEST = 16
"""Most calls of a sequence, without the questions after it."""
_FIRST_NUMBER = 1_000_000
_UNSTEADY = re.compile(r" at 0x[0-9a-f]+|\d\.\d{12,}")


def held_out_sequences(
    tests: Sequence[Sequence[Call]],
    targets: Sequence[str],
    choice: random.Random,
    options: Options | None = None,
    is_value_class: IsValueClass = lambda *_: False,
) -> list[list[Call]]:
    """Return new sequences of calls, each with other data than every test's; ``choice`` draws them.

    Some calls pass one of the ``options``, which no test passes; their key ``option`` names it. Objects that no call
    made are exchanged for others; those of a class for which ``is_value_class`` is true get other data too.
    """
    models = [list(calls[:LONGEST]) for calls in tests if _is_movable(calls[:LONGEST])]
    pools = _pools(models)
    keys_known = {_key(model) for model in models}
    sequences: list[list[Call]] = []
    for _ in range(4 * PROPOSED):
        if len(sequences) == PROPOSED or not models:
            break
        new = _changed(choice.choice(models), pools, choice, options or {}, is_value_class)
        if _key(new) not in keys_known:
            keys_known.add(_key(new))
            sequences.append(new + _questions(new, targets))
    parts = ("target", "arguments", "keywords", "option")
    return [[{name: call[name] for name in parts if name in call} for call in calls] for calls in sequences]


def kept_sequences(
    proposed: Sequence[Sequence[Call]],
    runs: Sequence[Sequence[Any]],
    nothing: Sequence[Sequence[Any]],
    is_shown: Callable[[Call, Any], bool] = lambda _call, _error: False,
) -> list[list[Call]]:
    """Return the sequences that the task's own solution answers the same in two ``runs``, and the workspace not.

    ``nothing`` has the answers of the unsolved workspace.

    A sequence ends before the first call that raises, also where its result raises when it is read: another solution
    may raise at once. Where tests or the statement show the class of the exception (``is_shown``), another sequence has
    that call as its last one, with ``is_bold``. The answer of each call has only what is compared.
    """
    sequences_kept: list[list[Call]] = []
    for calls, first, second, other in zip(proposed, *runs, nothing, strict=False):
        good: list[Call] = []
        is_different, last = False, None
        for call, one, two, three in zip_longest(calls, first or [], second or [], other or []):
            if call is None or not one or not two or "broken" in one or _raises(one):
                if call is not None and call["target"] in QUESTIONS:
                    continue
                error = _common_error(one, two)
                if call is not None and error is not None and is_shown(call, error):
                    last = {**call, "answer": comparable(call, one), "is_bold": True}
                break
            answer = comparable(call, one)
            is_steady = canonical(answer) == canonical(comparable(call, two))
            if not is_steady or _UNSTEADY.search(canonical(answer)):
                if call["target"] in QUESTIONS:
                    continue
                break
            needs = canonical(answer) != canonical(comparable(call, three))
            changes = sorted(spoilt_attributes(call, one))
            good.append({**call, "answer": answer, "needs": needs, **({"changes": changes} if changes else {})})
            is_different |= needs
        answers = [call["answer"] for call in good]
        if all(is_free(call, answers) for call in good):
            bare = [{name: call[name] for name in call if name != "option"} for call in good]
            sequences_kept += [bare] if is_different else []
            sequences_kept += [[*bare, last]] if last is not None and "option" not in last else []
    return sequences_kept


def repeats_test(calls: Sequence[Call], tests: Sequence[Sequence[Call]]) -> bool:
    """Return whether one of the tests begins with the same calls; questions after them are left out."""
    without_questions = [call for call in calls if call["target"] not in QUESTIONS]
    names = [(call["target"], list(call["keywords"])) for call in without_questions]
    beginnings = [test[: len(names)] for test in tests]
    alike = [calls for calls in beginnings if [(call["target"], list(call["keywords"])) for call in calls] == names]
    return bool(alike) and _key(without_questions) in map(_key, alike)


def _common_error(one: Any, two: Any) -> Any:
    """Return the class of exception that both answers have, None where they differ or one has no exception."""
    errors = [answer["error"] for answer in (one, two) if isinstance(answer, dict) and answer.get("error")]
    return errors[0][0] if len(errors) == 2 and canonical(errors[0][0]) == canonical(errors[1][0]) else None


def _raises(answer: Any) -> bool:
    result = answer.get("result")
    return answer.get("error") is not None or isinstance(result, list) and result[0] == "I" and result[2] is not None


def _is_movable(calls: Sequence[Call]) -> bool:
    """Return whether calls name earlier results only by numbers that every solution gives them."""
    stable = {f"{number}.1" for number, call in enumerate(calls) if _number(call["answer"]["result"]) == f"{number}.1"}
    used = {call["target"][1:] for call in calls if call["target"][0] == "@"}
    used |= {name for call in calls for form in argument_forms(call) for name in _names(form)}
    return used <= stable


def _number(form: Any) -> Any:
    return form[1] if isinstance(form, list) and form[0] in ("L", "O", "o", "l", "d", "S", "ba", "m", "r") else None


def _names(form: Any) -> Iterator[str]:
    """Yield the numbers of answers in a form; data that looks like such a number is taken for one."""
    if isinstance(form, list):
        if len(form) > 1 and isinstance(form[1], str) and re.fullmatch(r"\d+\.(.*/.*\.)?\d+", form[1]):
            yield form[1]
        for part in form[1:]:
            yield from _names(part)


def _changed(
    model: Sequence[Call],
    pools: Mapping[str, ArgumentPool],
    choice: random.Random,
    options: Options,
    is_value_class: IsValueClass,
) -> list[Call]:
    """Return the calls with some plain arguments and objects replaced or varied, and with options in some of them."""
    numbers = count(_FIRST_NUMBER)
    named = {
        form[1]
        for call in model
        for item in argument_forms(call)
        for form in _forms(item)
        if form[0] in ("r", "h") and type(form[1]) is int
    }
    calls: list[Call] = []
    for call in model:
        new: dict[int | str, Any] = {}
        for place in [*range(len(call["arguments"])), *call["keywords"]]:
            form, pool = at(call, place), pools[call["target"]]
            if pool.is_plain(place, form) and form is not None and choice.random() < 0.7:
                others = pool.plain(place)
                form = choice.choice(others) if choice.random() < 0.5 else form
                form = varied(form, others, choice) if choice.random() < 0.6 else form
                form = renumbered(form, numbers)
            elif is_object(form) and not named.intersection(_numbers(form)):  # else a later call needs this one
                form = renumbered(other_object(form, pool.everything(place), is_value_class, choice), numbers)
            new[place] = form
        arguments = [new[place] for place in range(len(call["arguments"]))]
        option = with_option(options.get(call["target"], {}), choice)
        keywords = {**{name: new[name] for name in call["keywords"]}, **option}
        calls.append({**call, "arguments": arguments, "keywords": keywords})
        if option:
            calls[-1]["option"] = next(iter(option))
    return calls


def _pools(models: Sequence[Sequence[Call]]) -> dict[str, ArgumentPool]:
    """Return the arguments of all calls by target."""
    calls_found: dict[str, list[Call]] = {}
    for call in (call for calls in models for call in calls):
        calls_found.setdefault(call["target"], []).append(call)
    return {target: ArgumentPool(calls) for target, calls in calls_found.items()}


def _forms(form: Any) -> Iterator[list[Any]]:
    """Yield a form and those in it; lists of forms are taken for forms too."""
    if isinstance(form, list):
        if len(form) > 1:
            yield form
        for part in form:
            yield from _forms(part)


def _numbers(form: Any) -> set[int]:
    """Return the numbers of the containers and objects in a form."""
    numbers = (item[1] for item in _forms(form) if item[0] in ("l", "S", "d", "o"))
    return {number for number in numbers if type(number) is int}


def _questions(calls: Sequence[Call], targets: Sequence[str]) -> list[Call]:
    """Return calls that ask for the texts of returned objects, unless the task examines the methods that write them."""
    examined = {target.rpartition(".")[2] for target in targets}
    names = [f"{number}.1" for number, call in enumerate(calls) if _is_object(call["answer"]["result"])]
    return [
        {"target": question, "arguments": [["r", name]], "keywords": {}}
        for name in names
        for question, method in QUESTIONS.items()
        if method not in examined and not examined & {"__format__", "__repr__"}
    ]


def _is_object(form: Any) -> bool:
    return isinstance(form, list) and form[0] in ("o", "O") and plain_data(form) == ["?"]


def _key(calls: Sequence[Call]) -> str:
    numbers = count(1)
    return canonical(
        [
            [
                call["target"],
                [renumbered(form, numbers) for form in argument_forms(call)],
                list(call["keywords"]),
            ]
            for call in calls
        ]
    )
