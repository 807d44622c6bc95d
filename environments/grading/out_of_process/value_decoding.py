"""Forms back to values (see ``value_encoding.py``), and functions and classes of tests by value.

The text of this file is also run inside sandboxes, after that of ``value_encoding.py``, on Python 3.8 and later. What
is decoded on the trusted side is limited to names that the task's own solution gave: a solution cannot send code.
"""

from __future__ import annotations

import base64
import collections
import marshal
import re
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .code_encoding import CodeEncoder
    from .places import (
        CannotEncode,
        bare_object,
        made,
        replace_items,
        replay,
        resolve,
        set_state,
    )
    from .special_values import SIMPLE, found_match, member_again, used_up
    from .trusted_objects import (
        CODE,
        bound_method,
        checked_filling,
        checked_maker,
        checked_object,
        checked_value,
        is_plain_attribute,
        set_checked_state,
        sets_cell,
    )

_CONTAINERS: dict[str, Callable[[], Any]] = {"l": list, "d": dict, "S": set, "ba": bytearray}
_SPECIAL = frozenset(("__wrapped__", "__signature__", "__text_signature__", "__test__", "__class__"))
"""Attributes of a function that Python, pytest and unittest read."""
_BUILT_IN = (list, dict, set, bytearray)


class Values(CodeEncoder):
    """Turns the values of one test's calls into forms and back; both sides of the calls keep one for each test.

    ``opaque`` names the classes (``module:name``) whose state the two sides do not share. ``allowed`` says which names
    a form may hold when it is decoded; None allows everything, code included. ``live`` makes a stand-in for a function
    that stays on the other side.
    """

    def __init__(
        self, opaque: Iterable[str] = (), packages: Iterable[str] = (), allowed: Any = None, live: Any = None
    ) -> None:
        super().__init__(opaque, packages)
        self.allowed = allowed
        self.live = live

    def decode(self, form: Any) -> Any:
        """Return the value of a form; known containers and objects are changed in place.

        Raises CannotEncode for a form that names what is not allowed, and whatever the named classes raise.
        """
        if not isinstance(form, list):
            return form
        tag = form[0]
        if tag in SIMPLE:
            return SIMPLE[tag](form)
        if tag == "t":
            return tuple([self.decode(item) for item in form[1]])
        if tag == "F":
            return frozenset([self.decode(item) for item in form[1]])
        if tag == "D":
            return {self.decode(key): self.decode(item) for key, item in form[1]}
        if tag == "r":
            return self.objects[form[1]]
        if tag == "g":
            return self._named(form[1], form[2])
        if tag == "e":
            return member_again(self._named(form[1], form[2]), form[3])
        if tag == "I":
            if not form[1] and form[2] is None:
                return used_up()
            failure = None if form[2] is None else self.decode_exception(form[2])
            return replay([self.decode(item) for item in form[1]], failure, ())
        if tag in _CONTAINERS:
            return self._decode_container(form)
        handler = getattr(self, f"_decode_{tag}", None)
        if handler is None:
            raise CannotEncode(f"unknown tag {tag!r}")
        return handler(*form[1:])

    def decode_exception(self, form: Any) -> BaseException:
        """Return the exception of a form; where its class takes other arguments, one that has them set."""
        kind = self.decode(form[0])
        if not (isinstance(kind, type) and issubclass(kind, (Exception, SystemExit))):
            raise CannotEncode("only an Exception is raised across processes")
        arguments = [form[1]] if form[2] is None else [self.decode(item) for item in form[2]]
        try:
            return kind(*arguments)
        except Exception:  # noqa: BLE001  a class with a signature of its own
            error = kind.__new__(kind)
            error.args = tuple(arguments)
            return error

    def _named(self, module: str, name: str) -> Any:
        if self.allowed is not None and not self.allowed(module, name):
            raise CannotEncode(f"{module}:{name} is not expected here")
        return resolve(module, name) if self.allowed is None else checked_value(module, name)

    def _known(self, number: Any, make: Callable[[], Any]) -> Any:
        if number not in self.objects:
            if self.allowed is not None and not isinstance(number, str):
                raise CannotEncode(f"number {number!r} is not an answer's")
            value = make()
            self.objects[number] = value
            self.numbers[id(value)] = number
        return self.objects[number]

    def _decode_container(self, form: Any) -> Any:
        tag, number, content = form
        self._known(number, _CONTAINERS[tag])
        value = self._known_as(number, lambda value: type(value) is _CONTAINERS[tag])
        if tag == "l":
            value[:] = [self.decode(item) for item in content]
        elif tag == "ba":
            value[:] = base64.b64decode(content)
        elif tag == "S":
            items = [self.decode(item) for item in content]
            value.clear()
            value.update(items)
        else:
            pairs = [(self.decode(key), self.decode(item)) for key, item in content]
            value.clear()
            value.update(pairs)
        return value

    def _decode_o(self, number: Any, maker: Any, arguments: Any, state: Any, items: Any, pairs: Any) -> Any:
        method, place = maker
        values = [self.decode(item) for item in arguments]  # what made a known object may have changed since
        if number in self.objects:
            value = self._known_as(number, lambda value: not (type(value) in _BUILT_IN or isinstance(value, CODE)))
        else:
            make = self._maker(method, place)
            if self.allowed is None:
                value = self._known(number, lambda: made(method, make, values))
            else:
                value = self._made_here(number, checked_object(method, make, values), (state, items, pairs))
        if self.allowed is None:
            set_state(value, self.decode(state))
        else:
            set_checked_state(value, self.decode(state))
            checked_filling(value, items, pairs)
        if items is not None:
            replace_items(value, [self.decode(item) for item in items])
        if pairs is not None:
            decoded = [(self.decode(key), self.decode(item)) for key, item in pairs]
            for kind in (collections.OrderedDict, dict):
                if isinstance(value, kind):
                    kind.clear(value)
            for key, item in decoded:
                value[key] = item
        return value

    def _made_here(self, number: Any, value: Any, written: tuple[Any, ...]) -> Any:
        """Give a new object of the trusted side its number; one that is known already is not written to."""
        known_number = self.numbers.get(id(value))
        is_known = known_number is not None and self.objects.get(known_number) is value
        if is_known and written != (None, None, None):
            raise CannotEncode(f"a {type(value).__name__} that is known as number {known_number}")
        return self._known(number, lambda: value)

    def _maker(self, method: str, place: Any) -> Any:
        """Return what makes an object; on the trusted side only what has made one in a recorded answer."""
        if self.allowed is None:
            return self.decode(place)
        if place[0] != "g" or not self.allowed(f"{method} {place[1]}", place[2]):
            raise CannotEncode(f"{place!r} is not expected to make an object")
        return checked_maker(place[1], place[2], self.packages)

    def _known_as(self, number: Any, is_kind: Callable[[Any], bool]) -> Any:
        """Return a known object; on the trusted side a form cannot treat it as one of another kind."""
        value = self.objects[number]
        if self.allowed is not None and not is_kind(value):
            raise CannotEncode(f"number {number} is a {type(value).__name__}")
        return value

    def _decode_m(self, number: Any, *parts: Any) -> Any:
        match = found_match(*map(self.decode, parts))
        self._known(number, lambda: match)
        return self._known_as(number, lambda value: isinstance(value, re.Match))

    def _decode_B(self, number: Any, owner: Any, name: Any) -> Any:
        value = self.decode(owner)
        if number in self.objects:
            return self._known_as(number, lambda value: isinstance(value, (types.MethodType, *CODE)))
        method = getattr(value, name) if self.allowed is None else bound_method(value, name, self.allowed)
        return self._known(number, lambda: method)

    def _decode_n(self, number: Any, kind: Any) -> Any:
        if self.allowed is not None:
            raise CannotEncode("a new object is not an answer's")
        created = self.decode(kind)
        return self._known(number, lambda: bare_object(created))

    def _decode_h(self, number: Any, attributes: Any) -> Any:
        value = self._known_as(number, lambda value: False)  # an answer writes such an object in full
        for name, *form in attributes:
            if form:
                value.__dict__[name] = self.decode(form[0])
            else:
                value.__dict__.pop(name, None)
        return value

    def _decode_O(self, number: Any, kind: Any, attributes: Any, items: Any, pairs: Any) -> Any:
        created = self.decode(kind)
        self._known(number, lambda: bare_object(created))
        value = self._known_as(number, lambda value: self.is_opaque(type(value)))
        if attributes:
            decoded_attributes = {name: self.decode(item) for name, item in attributes}
            if self.allowed is not None:  # private state is the solution's own, methods are those of the tree
                pairs_held = decoded_attributes.items()
                decoded_attributes = {name: item for name, item in pairs_held if is_plain_attribute(value, name, item)}
            value.__dict__.clear()
            value.__dict__.update(decoded_attributes)
        if items is not None:
            list.__setitem__(value, slice(None), [self.decode(item) for item in items])
        if pairs is not None:
            decoded = [(self.decode(key), self.decode(item)) for key, item in pairs]
            dict.clear(value)
            dict.update(value, decoded)
        self.synced[number] = self.digests(value)
        return value

    def _decode_L(self, number: Any, attributes: Any) -> Any:
        if self.live is None:
            return self.objects[number]
        if not isinstance(number, str) or not all(self._is_attribute(name) for name, _ in attributes):
            raise CannotEncode("a function of an answer has a number of its own and no special attributes")
        if self.allowed is not None and not self.allowed("live", ""):
            raise CannotEncode("a function is not expected here")
        function = self._known(number, lambda: self.live(number, None))
        self._known_as(number, lambda value: isinstance(value, types.FunctionType))
        for name, form in attributes:
            setattr(function, name, self.decode(form))
        return function

    def _is_attribute(self, name: str) -> bool:
        """Return whether a function of an answer may have an attribute: a special one as the task's own solution."""
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
        return function

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
