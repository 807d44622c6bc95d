"""Functions and classes of tests, from their forms (see ``encoding.py``).

The text of this file is also run inside sandboxes, after that of ``decoding.py``, on Python 3.8 and later. On the
trusted side no form makes a function or class: only the variables that a function of a test holds change there.
"""

from __future__ import annotations

import base64
import marshal
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of those files has defined these names already
    from .decoding import DataValues
    from .places import CannotEncode
    from .trusted_objects import sets_cell

_SPECIAL = frozenset(("__wrapped__", "__signature__", "__text_signature__", "__test__", "__class__"))
"""Attributes of a function that Python, pytest and unittest read."""


class Values(DataValues):
    """Turns the values of one test's calls into forms and back, functions and classes of tests too."""

    def _decode_L(self, number: Any, attributes: Any) -> Any:
        if self.live is None:
            return self.objects[number]
        if not isinstance(number, str) or not all(self._is_attribute(name) for name, _ in attributes):
            raise CannotEncode("a function of an answer has a number of its own and no special attributes")
        if self.allowed is not None and not self.allowed("live", ""):
            raise CannotEncode("a function is not expected here")
        function = self._known(number, lambda: self.live(number, None))
        self._known_as(number, lambda value: isinstance(value, types.FunctionType))
        with self.watched(number, function):
            for name, form in attributes:
                setattr(function, name, self.decode(form))
        return function

    def _is_attribute(self, name: str) -> bool:
        """Return whether a function in an answer may have an attribute: a special one only if recorded answers do."""
        if not name.startswith("__"):
            return True
        is_python_s = hasattr(types.FunctionType, name) or name in _SPECIAL
        return not is_python_s and bool(self.allowed is None or self.allowed("attribute", name))

    def _decode_fn(self, number: Any, code: str, name: str, module: str, defaults: Any, *held: Any) -> Any:
        cells, shared, attributes = (*held, [])[:3]
        if number not in self.objects:
            if self.allowed is not None:
                raise CannotEncode("a function by value")
            scope: dict[str, Any] = {"__name__": module, "__builtins__": __builtins__}
            closure = tuple(types.CellType() for _ in cells)
            loaded = marshal.loads(base64.b64decode(code))
            function = self._known(number, lambda: types.FunctionType(loaded, scope, name, None, closure))
            scope.update((key, self.decode(form)) for key, form in shared)
            function.__defaults__, function.__kwdefaults__ = (self.decode(form) for form in defaults)
        is_of_test = isinstance(number, int)
        function = self._known_as(number, lambda value: is_of_test and isinstance(value, types.FunctionType))
        with self.watched(number, function):
            self._fill_function(function, cells, shared, attributes)
        return function

    def _fill_function(self, function: Any, cells: Any, shared: Any, attributes: Any) -> None:
        """Set the variables and attributes that a function of a test holds."""
        for position, (_, form) in enumerate(cells):
            content = self.decode(form[0]) if form else None
            is_set = self.allowed is None or sets_cell(function.__code__, function.__code__.co_freevars[position])
            if form and is_set:
                function.__closure__[position].cell_contents = content
        if self.allowed is not None:  # containers that the function shares are changed in place
            for _, form in shared:
                if not (isinstance(form, list) and form[0] == "g"):  # a module's own things are the same on both sides
                    self.decode(form)
        for key, form in attributes:
            if self.allowed is not None and not (self._is_attribute(key) and self.allowed("attribute", key)):
                raise CannotEncode(f"attribute {key} is not expected here")
            setattr(function, key, self.decode(form))

    def _decode_k(self, number: Any, name: str, module: str, bases: Any, members: Any) -> Any:
        if number in self.objects or self.allowed is not None:
            return self.objects[number]
        created = types.new_class(name, tuple(self.decode(base) for base in bases))
        created.__module__ = module
        self._known(number, lambda: created)
        wrappers: dict[str, Any] = {"staticmethod": staticmethod, "classmethod": classmethod}
        for member, method, form in members:
            inner = self.decode(form)
            wrapped = property(*inner) if method == "property" else wrappers[method](inner) if method else inner
            setattr(created, member, wrapped)
        return created
