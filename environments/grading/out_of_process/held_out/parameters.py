"""Values for optional parameters that no test passes, of the types that their defaults and annotations show."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..recorded_calls import Call
from ..targets import Function, definitions, module_name
from ..values.places import canonical
from .literals import alike

Options = Mapping[str, Mapping[str, Sequence[Any]]]
"""Forms of values by target and by the name of a parameter that no recorded call passes."""
MOST_VALUES = 8
"""Most values of one parameter."""
_TYPES = {"str": str, "int": int, "bool": bool, "float": float}


def unused_options(
    sources: Mapping[str, bytes],
    roots: Sequence[str],
    calls: Sequence[Call],
    texts: Sequence[str],
    choice: random.Random,
) -> dict[str, dict[str, list[Any]]]:
    """Return values for the optional parameters of the called functions that no call passes.

    ``sources`` are the files of the solution by path, ``roots`` the folders that modules are imported from. The values
    have the type of the default, or of the annotation where the default is None; a parameter of another type is left
    out, unless a call passes one of its name to another function. ``choice`` draws them, texts from ``texts``.
    """
    by_target: dict[str, list[Call]] = {}
    for call in calls:
        by_target.setdefault(call["target"], []).append(call)
    by_name = _passed_by_name(calls)
    options: dict[str, dict[str, list[Any]]] = {}
    for path, content in sorted(sources.items()):
        module = module_name(path, roots) if path.endswith(".py") else ""
        functions = definitions(ast.parse(content)) if module else {}
        for name, function in functions.items():
            target = f"{module}:{name}"
            for parameter, default, annotation in _unused(function, by_target.get(target, [])):
                values = by_name.get(parameter) or _values(default, annotation, texts, choice)
                if values:
                    options.setdefault(target, {})[parameter] = values[:MOST_VALUES]
    return options


def is_free(call: Call, answers: Sequence[Any]) -> bool:
    """Return whether a call's ``option`` is free: not a text, or a text that is repeated in one of the answers.

    Any other text may stand for one of a few choices, and solutions differ in how they treat an unknown choice.
    """
    value = call["keywords"].get(call.get("option"))
    return not isinstance(value, str) or canonical(value)[1:-1] in canonical(answers)


def _passed_by_name(calls: Sequence[Call]) -> dict[str, list[Any]]:
    """Return the plain values that calls pass as keywords, by keyword."""
    values: dict[str, list[Any]] = {}
    for call in calls:
        for name, form in call["keywords"].items():
            if isinstance(form, str | int | float) and form not in values.setdefault(name, []):
                values[name].append(form)
    return {name: forms for name, forms in values.items() if forms}


def _unused(function: Function, calls: Sequence[Call]) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """Yield name, default and annotation of optional parameters that no call passes; none where there is no call."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    most = max((len(call["arguments"]) for call in calls), default=len(positional))
    named = {name for call in calls for name in call["keywords"]}
    first = len(positional) - len(arguments.defaults)
    for number, default in enumerate(arguments.defaults, start=first):
        item = positional[number]
        if number >= max(most, len(arguments.posonlyargs)) and item.arg not in named:
            yield item.arg, default, item.annotation
    for item, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if calls and keyword_default is not None and item.arg not in named:
            yield item.arg, keyword_default, item.annotation


def _values(
    default: ast.expr, annotation: ast.expr | None, texts: Sequence[str], choice: random.Random
) -> list[str | bool | int | list[str]]:
    """Return forms of other values than the default, of its type."""
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return []
    kind = type(value) if value is not None else _annotated(annotation)
    if kind is bool:
        return [not value]
    if kind is int:
        start = value or 0
        return [start + 1, start + 2, max(0, start - 1), 2 * start + 3]
    if kind is float:
        start = value or 0.0
        return [["f", repr(start + 0.5)], ["f", repr(2 * start + 1.0)]]
    if kind is not str:
        return []
    similar = [text for text in alike(value or "ab", texts) if text != value and len(text) <= 2 * len(value or "abcd")]
    letters = "abcdefghkmnprstvwxz"
    of_shape = "".join(choice.choice(letters) if letter.isalpha() else letter for letter in value or "ab")
    return list(dict.fromkeys([of_shape, *choice.sample(similar, min(len(similar), MOST_VALUES - 1))]))


def _annotated(annotation: ast.expr | None) -> type | None:
    """Return the plain type that an annotation such as ``str | None`` or ``Optional[str]`` names, None for others."""
    names = re.findall(r"\w+", ast.unparse(annotation)) if annotation is not None else []
    kinds = [name for name in names if name not in ("None", "Optional", "Union", "typing", "t")]
    return _TYPES.get(kinds[0]) if len(kinds) == 1 else None
