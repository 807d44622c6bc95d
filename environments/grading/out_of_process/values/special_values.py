"""Values of the standard library that have a form of their own (see ``encoding.py``).

The text of this file is also run inside sandboxes, after that of ``places.py``, on Python 3.8 and later.
"""

from __future__ import annotations

import base64
import enum
import inspect
import itertools
import re
import types
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .places import CannotEncode, content_type, is_listed, replay

ITERATORS = (
    *(types.GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice),
    *(type(iter(value)) for value in ([0], (), "", {0: 0}, {}.items(), {}.values(), {0}, range(0), b"")),  # type: ignore[var-annotated]
)
UNNUMBERED = frozenset((type(None), bool, int, float, complex, str, bytes, tuple, frozenset))
PLACED = (type, types.ModuleType, types.BuiltinFunctionType, enum.Enum)
SIMPLE: dict[str, Callable[[Any], Any]] = {
    "i": lambda form: int(form[1]),
    "f": lambda form: float(form[1]),
    "c": lambda form: complex(float(form[1]), float(form[2])),
    "s": lambda form: bytes.fromhex(form[1]).decode("utf-8", "surrogatepass"),
    "b": lambda form: base64.b64decode(form[1]),
}
"""Decoders of the forms that hold no other form, by tag."""
_MATCHERS = ("search", "match", "fullmatch")


def match_parts(value: re.Match[Any]) -> list[Any]:
    """Return the parts that find a match again: method, pattern, text, and where the search starts and ends.

    Raises CannotEncode where no method of the pattern finds it: one of ``finditer`` may follow an empty match.
    """
    for start in (value.pos, value.start()):
        for method in _MATCHERS:
            match = getattr(value.re, method)(value.string, start, value.endpos)
            if match is not None and match.regs == value.regs:
                return [method, value.re, value.string, start, value.endpos]
    raise CannotEncode("a match that its pattern does not find alone")


def found_match(method: Any, pattern: Any, text: Any, start: Any, end: Any) -> re.Match[Any]:
    """Return the match that these parts find. Raises CannotEncode when there is none."""
    is_search = method in _MATCHERS and type(pattern) is re.Pattern and type(text) in (str, bytes)
    if not (is_search and type(start) is int and type(end) is int):
        raise CannotEncode("not the parts of a match")
    match = getattr(pattern, method)(text, start, end)
    if match is None:
        raise CannotEncode("parts of a match that find nothing")
    return match


def member_of(value: enum.Enum) -> Any:
    """Return the name of a member of an enumeration, or the number of a combination of flags; None for any other."""
    if value.name in type(value).__members__:
        return value.name
    number = value.value
    return number if isinstance(value, enum.Flag) and type(number) is int else None


def member_again(kind: Any, member: Any) -> Any:
    """Return the member that ``member_of`` named. Raises CannotEncode for a class that is not an enumeration."""
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        raise CannotEncode(f"{kind!r} has no members")
    return kind(member) if type(member) is int else kind[member]


def is_used_up(value: Any) -> bool:
    """Return whether a value is a generator that has ended."""
    return isinstance(value, types.GeneratorType) and value.gi_frame is None


def used_up() -> Any:
    """Return a generator that has ended."""
    generator = replay((), None, ())  # type: ignore[arg-type]
    next(generator, None)
    return generator


def made_from(value: Any, arguments: Any, examined: Collection[str]) -> tuple[str, Any]:
    """Return how an object of a class is made again, ``new`` or ``content`` (see ``made``), and from what.

    A class such as a subclass of a named tuple may have a ``__new__`` that does not take the ``arguments`` of
    ``copyreg.__newobj__``; then its built-in base makes the object. One of the
    ``examined`` classes is not called either.
    """
    kind = type(value)
    base, maker = content_type(kind), next(owner for owner in kind.__mro__ if "__new__" in vars(owner))
    if base is None or maker is base:
        return "new", arguments
    try:
        inspect.signature(maker.__new__).bind(kind, *arguments)
        is_called = not is_listed(kind, examined)
    except TypeError:
        is_called = False
    except ValueError:  # a class that is written in C
        return "new", arguments
    return ("new", arguments) if is_called else ("content", base.__getnewargs__(value))


def is_text(value: str) -> bool:
    """Return whether a string has no half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
