"""Functions and classes of tests as forms, by value (see ``encoding.py``).

The text of this file is also run inside sandboxes, after that of ``encoding.py``, on Python 3.8 and later.
"""

from __future__ import annotations

import base64
import itertools
import marshal
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .encoding import MAX_ITEMS, Encoder
    from .own_state import NO_FORM
    from .places import CannotEncode, canonical, global_names, has_assertion, is_test_class, place_of, replay
    from .special_values import ITERATORS, PLACED, UNNUMBERED

_IGNORED = frozenset(
    ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__")
    + ("__abstractmethods__", "_abc_impl", "__slotnames__")
)


class CodeEncoder(Encoder):
    """Turns values into forms, also functions and classes that a test defines."""

    def number_first(self, result: Any) -> None:
        """Number a result and its parts before anything else in an answer.

        Private state is numbered later, so that it does not shift the numbers of what a caller sees.
        """
        self._number_parts(result, set())

    def _number_parts(self, value: Any, visited: set[int]) -> None:
        kind = type(value)
        is_new = id(value) not in self.numbers and id(value) not in visited and len(visited) < MAX_ITEMS
        if not is_new or isinstance(value, (*ITERATORS, *PLACED)):
            return
        if kind is types.FunctionType:
            try:
                place_of(value)
            except CannotEncode:
                self.add(value)
            return
        if kind not in UNNUMBERED:
            if self._constant(value) is not None:
                return
            self.add(value)
        elif kind is not tuple:
            return
        visited.add(id(value))
        if kind in (tuple, list):
            for item in value:
                self._number_parts(item, visited)
        elif kind is dict:
            for item in value.values():
                self._number_parts(item, visited)

    def texts(self, values: list[Any]) -> list[str]:
        """Return a text for each value, equal for equal values; '?' for a value that cannot be encoded."""
        encoder = type(self)((), self.packages)
        forms = map(encoder.alone, values)
        return ["?" if form is NO_FORM else canonical(form) for form in forms]

    def taken(self, generator: Any) -> Any:
        """Return a generator whose first items are read now; the later ones are read when they are asked for."""
        items = list(itertools.islice(generator, MAX_ITEMS))
        return replay(items, None, generator)

    def encode_known_code(self, value: Any, number: Any) -> Any:
        """Return the form of a test's function or class by value; that of one in an answer only names it."""
        if isinstance(number, str):
            return ["L", number, self._attributes(value) if self.answering and not isinstance(value, type) else []]
        if value.__name__.lower().startswith("test") or isinstance(value, type) and is_test_class(value):
            raise CannotEncode(f"{value.__name__} holds what tests expect")
        if isinstance(value, type):
            return self._encode_class(value, number)
        code = value.__code__
        if has_assertion(code):
            raise CannotEncode(f"function {value.__name__} holds what a test expects")
        cells = [[name, _content(self, value.__closure__[i])] for i, name in enumerate(code.co_freevars)]
        used = sorted(global_names(code) & value.__globals__.keys())
        forms = [[name, self.optional(value.__globals__[name])] for name in used]
        shared = [pair for pair in forms if pair[1] is not None]
        attributes = self._attributes(value)
        if self.answering:  # the other side has the code; what the function shares may have changed
            return ["fn", number, "", "", "", None, cells, shared, attributes]
        defaults = [self.encode(value.__defaults__), self.encode(value.__kwdefaults__)]
        try:
            text = base64.b64encode(marshal.dumps(code, 2)).decode()  # later versions depend on reference counts
        except ValueError as error:
            raise CannotEncode(f"function {value.__name__}: {error}") from error
        return ["fn", number, text, value.__name__, value.__module__, defaults, cells, shared, attributes]

    def _attributes(self, function: Any) -> list[Any]:
        forms = [[name, self.optional(item)] for name, item in sorted(vars(function).items()) if name != "__wrapped__"]
        return [pair for pair in forms if pair[1] is not None]

    def _encode_class(self, value: Any, number: Any) -> Any:
        members = []
        for name, item in sorted(vars(value).items()):
            if name in _IGNORED or isinstance(item, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                continue
            method, inner = "", item
            if isinstance(item, (staticmethod, classmethod)):
                method, inner = type(item).__name__, item.__func__
            elif isinstance(item, property):
                method, inner = "property", (item.fget, item.fset, item.fdel)
            members.append([name, method, self.encode(inner)])
        return ["k", number, value.__name__, value.__module__, [self.encode(base) for base in value.__bases__], members]


def _content(values: CodeEncoder, cell: Any) -> list[Any]:
    try:
        return [values.encode(cell.cell_contents)]
    except ValueError:  # an empty cell
        return []
