"""Stand-ins for objects of a solution's own classes: objects of an expected class with the same data, or plain data.

The text of this file is also run inside sandboxes, after that of ``places.py``, on Python 3.8 and later. A solution may
return an object of a private subclass of an expected class, or raise a subclass of an expected exception. The trusted
side does not have that class. So an answer lists the bases of its classes, and the first base that is expected at that
place replaces the class. The methods, equality among them, are then those of the trusted tree, and the test decides.
The solution gains nothing by this: it could have sent an object of that base itself.

Where no base is expected, and the class derives from one of Python's own types of data, plain data stands in: a
dictionary for an ``OrderedDict``, a list for a ``deque``, a string for an object of a subclass of ``str``. That makes
no object of any class, so no ``default_factory``, attribute or method can be reached through it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .places import CannotEncode, place_of

MAX_BASES = 16
"""Most bases of a class that are named."""
MAX_PARTS = 100_000
"""Most parts of an answer with stand-ins; plain data is repeated in full wherever its object is named."""


_DATA = (str, int, float, bytes, tuple, list, dict, set, frozenset)
_LOCAL = "<locals>"


def place_in_answer(kind: type) -> list[str]:
    """Return the form of a class in an answer; one that no module holds is marked as local."""
    try:
        return ["g", *place_of(kind)]
    except CannotEncode:
        return ["g", str(kind.__module__), f"{_LOCAL}.{kind.__qualname__}"]


def bases_of(kind: type, packages: Any) -> list[list[str]]:
    """Return the places of a class's bases that are in the packages, exceptions, or Python's types of data.

    ``Exception`` is listed only where no more specific exception is.
    """
    places: list[list[str]] = []
    has_exception = False
    for base in kind.__mro__[1:MAX_BASES]:
        is_own = getattr(base, "__module__", "").partition(".")[0] in packages
        is_exception = issubclass(base, BaseException) and not (has_exception and base in (Exception, BaseException))
        if is_own or is_exception or base in _DATA:
            try:
                places.append(list(place_of(base)))
            except CannotEncode:
                continue
            has_exception |= is_exception and base.__module__ == "builtins"
    return [*places, ["builtins", "list"]] if issubclass(kind, collections.deque) else places


def with_stand_ins(answer: Any, allowed: Callable[[str, str], bool]) -> Any:
    """Return an answer in which expected bases, or plain data, replace classes that are not expected.

    ``allowed`` says whether a class is expected. Raises ValueError for more than MAX_PARTS.
    """
    bases = answer.get("classes")
    if not isinstance(bases, dict) or not bases:
        return answer
    plain_values: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    parts = 0

    def may_be_here(place: list[Any], method: str) -> bool:
        return not str(place[1]).startswith(_LOCAL) and allowed(f"{method}{place[0]}", str(place[1]))

    def place(form: Any, method: str = "") -> Any:
        """Return the form of a class, or of its first base that may be here."""
        places = _listed_bases(bases, form)
        if not places or may_be_here(form[1:], method):
            return form
        return next((["g", *base] for base in places if may_be_here(base, method)), form)

    def count(more: int) -> None:
        nonlocal parts
        parts += more
        if parts > MAX_PARTS:
            raise ValueError("an answer with too many parts")

    def replaced(form: Any) -> Any:
        count(1)
        if not isinstance(form, list):
            return form
        before = parts
        form = [replaced(part) for part in form]
        if len(form) == 7 and form[0] == "o" and isinstance(form[2], list) and len(form[2]) == 2:
            method, maker = form[2][0], place(form[2][1], f"{form[2][0]} ")
            form[2] = [method, maker]
            places = _listed_bases(bases, maker)
            if places and isinstance(form[1], str) and not may_be_here(maker[1:], f"{method} "):
                number = form[1]
                form = _plain(form, [base[1] for base in places if base[0] == "builtins"])
                plain_values[number], sizes[number] = form, parts - before + 1
        elif len(form) == 6 and form[0] == "O":
            form[2] = place(form[2])
        elif len(form) == 2 and form[0] == "r" and isinstance(form[1], str) and form[1] in plain_values:
            value = plain_values[form[1]]
            count(sizes[form[1]])  # it stands here in full
            return form if isinstance(value, list) and value[1:2] == form[1:] else value
        return form

    after = None if answer["after"] is None else [replaced(form) for form in answer["after"]]
    error = answer["error"]
    if error is not None:
        error = [place(error[0]), *map(replaced, error[1:])]
    return {**answer, "after": after, "error": error, "result": replaced(answer["result"])}


def _listed_bases(bases: dict[str, Any], form: Any) -> list[list[Any]]:
    """Return the bases that an answer lists for a class, none for any other form."""
    is_class = isinstance(form, list) and len(form) == 3 and form[0] == "g"
    listed = bases.get(f"{form[1]}:{form[2]}") if is_class else None
    return [base for base in listed if isinstance(base, list) and len(base) == 2] if isinstance(listed, list) else []


def _plain(form: list[Any], bases: list[Any]) -> Any:
    """Return the form of the data that an object holds, the object's own where it holds none."""
    _, number, _, arguments, _, items, pairs = form
    first: Any = arguments[0] if isinstance(arguments, list) and len(arguments) == 1 else None
    content = first[-1] if isinstance(first, list) and first else None
    if "dict" in bases:
        return ["d", number, content if pairs is None and content is not None and first[0] == "d" else pairs or []]
    if "list" in bases:
        return ["l", number, items or []]
    if ("set" in bases or "frozenset" in bases) and content is not None:
        return ["S", number, content] if "set" in bases else ["F", content]
    if "tuple" in bases and isinstance(arguments, list):
        return first if content is not None and first[0] == "t" else ["t", arguments]
    is_data = {"str", "int", "float", "bytes"} & {base for base in bases if isinstance(base, str)}
    return first if is_data and first is not None else form
