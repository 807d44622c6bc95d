"""Value objects: objects whose attributes are just the arguments of their constructor.

A held-out call may change each attribute of a value object separately. The attributes of any other object may depend on
each other, so such an object is only exchanged, as a whole, for another object that a test uses.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..forms import fields_of, is_plain, is_whole
from ..values.places import canonical
from .variation import varied

IsValueClass = Callable[[str, str, frozenset[str]], bool]
"""Function that returns whether the constructor of a class, by module and name, takes just these attributes."""


def value_classes(tree: Path, roots: Sequence[str]) -> IsValueClass:
    """Return the IsValueClass of a tree, whose modules are imported from the folders ``roots``.

    An attribute may have an underscore before the name of its parameter.
    """
    parameters: dict[tuple[str, str], frozenset[str]] = {}

    def is_value_class(module: str, name: str, attributes: frozenset[str]) -> bool:
        if (module, name) not in parameters:
            parameters[module, name] = frozenset(_parameters(tree, roots, module, name))
        return bool(attributes) and {item.lstrip("_") for item in attributes} == parameters[module, name]

    return is_value_class


def _parameters(tree: Path, roots: Sequence[str], module: str, name: str) -> list[str]:
    """Return the parameters of a class's constructor, none where there is no such class."""
    stem = module.replace(".", "/")
    for path in (tree / root / file for root in roots for file in (f"{stem}.py", f"{stem}/__init__.py")):
        if path.is_file():
            try:
                body: list[ast.stmt] = ast.parse(path.read_bytes()).body
            except (SyntaxError, ValueError):
                return []
            for part in name.split("."):
                body = next((item.body for item in body if isinstance(item, ast.ClassDef) and item.name == part), [])
            return _of_class(body)
    return []


def _of_class(body: Sequence[ast.stmt]) -> list[str]:
    constructor = next((item for item in body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
    if constructor is None:  # a data class, perhaps
        return [
            item.target.id for item in body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
    arguments = constructor.args
    if arguments.vararg or arguments.kwarg:
        return []
    return [item.arg for item in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]]


def other_object(form: Any, others: Sequence[Any], is_value_class: IsValueClass, choice: random.Random) -> Any:
    """Return another whole object of the same kind, or one with other data where it is a value object.

    ``others`` are the forms that tests show at the same place. The caller numbers the form again.
    """
    same = [item for item in others if _kind(item) == _kind(form) and is_whole(item)]
    form = choice.choice(same) if same and choice.random() < 0.6 else form
    fields = fields_of(form)
    maker = form[2][1]
    names = frozenset(name for name, _ in fields)
    if choice.random() < 0.5 or maker[0] != "g" or not is_value_class(maker[1], maker[2], names):
        return form
    changeable = [name for name, value in fields if value is not None and is_plain(value)]
    if not changeable:
        return form
    name = choice.choice(changeable)
    observed = [value for item in same for key, value in fields_of(item) if key == name and is_plain(value)]
    value = next(value for key, value in fields if key == name)
    return _with_field(form, name, _other_value(value, observed, choice))


def _other_value(value: Any, observed: Sequence[Any], choice: random.Random) -> Any:
    alike = [item for item in observed if type(item) is type(value)]
    way = choice.random()
    if alike and way < 0.3:
        return choice.choice(alike)
    if isinstance(value, str) and way < 0.65:  # numbers of other lengths
        return re.sub(r"[0-9]+", lambda _: str(choice.randint(0, 130)), value)
    if type(value) is int and way < 0.65:
        return choice.choice([abs(value) + 1, choice.randint(9, 130)])
    return varied(value, alike, choice)


def _kind(form: Any) -> Any:
    return canonical(form[2]) if isinstance(form, list) and form[0] == "o" else None


def _with_field(form: Any, name: str, value: Any) -> Any:
    def replaced(state: Any) -> Any:
        if state[0] == "t":
            return ["t", [state[1][0], replaced(state[1][1])]]
        return ["D", [[key, value if key == name else other] for key, other in state[1]]]

    return [*form[:4], replaced(form[4]), *form[5:]]
