"""Classes of a solution's own in its answers: an object of the expected class with the same data stands in for theirs.

The text of this file is also run inside sandboxes, after that of ``places.py``, on Python 3.8 and later. A solution may
return an object of a private subclass of what is expected, or raise one of an expected exception. The trusted side does
not have that class. So an answer says what its classes derive from, and the first base that is expected at that place
takes over: its methods, also what equality means, are those of the trusted tree, and the test decides. It is as if the
solution had sent an object of that base itself; what it says about its classes allows nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .places import CannotEncode, place_of

MAX_BASES = 16
"""Most bases of a class that are named."""


def bases_of(kind: type, packages: Any) -> list[list[str]]:
    """Return the places of a class's bases in the packages, and of Python's first exception among them."""
    places: list[list[str]] = []
    for base in kind.__mro__[1:MAX_BASES]:
        is_own = getattr(base, "__module__", "").partition(".")[0] in packages
        is_exception = base.__module__ == "builtins" and issubclass(base, BaseException)
        if is_own or is_exception:
            try:
                places.append(list(place_of(base)))
            except CannotEncode:
                continue
        if is_exception:
            break
    return places


def with_stand_ins(answer: Any, allowed: Callable[[str, str], bool]) -> Any:
    """Return an answer with expected bases in the place of classes that are not expected, where it names such bases."""
    bases = answer.get("classes")
    if not isinstance(bases, dict) or not bases:
        return answer

    def place(form: Any, method: str = "") -> Any:
        """Return the form of a class, or of its first base that may be here."""
        named = bases.get(f"{form[1]}:{form[2]}") if isinstance(form, list) and len(form) == 3 else None
        if not isinstance(named, list) or form[0] != "g" or allowed(f"{method}{form[1]}", str(form[2])):
            return form
        places = [base for base in named if isinstance(base, list) and len(base) == 2]
        good = (base for base in places if allowed(f"{method}{base[0]}", str(base[1])))
        return next((["g", *base] for base in good), form)

    def replaced(form: Any) -> Any:
        if not isinstance(form, list):
            return form
        form = [replaced(part) for part in form]
        if len(form) == 7 and form[0] == "o" and isinstance(form[2], list) and len(form[2]) == 2:
            form[2] = [form[2][0], place(form[2][1], f"{form[2][0]} ")]
        elif len(form) == 6 and form[0] == "O":
            form[2] = place(form[2])
        return form

    after = None if answer["after"] is None else [replaced(form) for form in answer["after"]]
    error = answer["error"]
    if error is not None:
        error = [place(error[0]), *map(replaced, error[1:])]
    return {**answer, "after": after, "error": error, "result": replaced(answer["result"])}
