"""Values from forms (see ``encoding.py``); ``code_decoding.py`` adds functions and classes of tests.

The text of this file is also run inside sandboxes, after that of ``encoding.py``, on Python 3.8 and later. Beside the
tests, forms may only use names that are in the answers of the task's own solution: a solution cannot send code.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import re
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .change_guard import Guard
    from .code_encoding import CodeEncoder
    from .own_state import has_own_state
    from .places import (
        CannotEncode,
        bare_object,
        has_plain_pairs,
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
    )

_CONTAINERS: dict[str, Callable[[], Any]] = {"l": list, "d": dict, "S": set, "ba": bytearray}
_BUILT_IN = (list, dict, set, bytearray)


class DataValues(CodeEncoder):
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
        self.guard: Guard | None = None
        self.made: set[Any] = set()
        """Numbers of the objects that were made since the message began."""

    def begin(self, answering: str = "") -> None:
        """Start a message."""
        super().begin(answering)
        self.made = set()

    def watched(self, number: Any, value: Any) -> contextlib.AbstractContextManager[None]:
        """Return a context that notes changes of a known object on the trusted side."""
        if self.guard is None or number in self.made:
            return contextlib.nullcontext()
        return self.guard.watched(number, value, self._is_same)

    def _is_same(self, before: Any, now: Any) -> bool:
        return before is now or self.texts([before]) == self.texts([now]) != ["?"]

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
        """Return the exception of a form. Where its class refuses the arguments, they are set without a call of it."""
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
            self.made.add(number)
            self.objects[number] = value
            self.numbers[id(value)] = number
        return self.objects[number]

    def _decode_container(self, form: Any) -> Any:
        tag, number, content = form
        self._known(number, _CONTAINERS[tag])
        value = self._known_as(number, lambda value: type(value) is _CONTAINERS[tag])
        with self.watched(number, value):
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
        is_known = number in self.objects
        if is_known:
            value = self._known_as(number, lambda value: not (type(value) in _BUILT_IN or isinstance(value, CODE)))
        else:
            make = self._maker(method, place)
            if self.allowed is None:
                value = self._known(number, lambda: made(method, make, values))
            else:
                parts = (state, items, pairs)
                value = self._made_here(number, checked_object(method, make, values), parts)
                if parts != (None, None, None) and checked_object(method, make, values) is value:
                    self.made.discard(number)  # the class hands out what it has: the test may hold it too
        with self.watched(number, value):
            self._fill(number, value, (state, items, pairs), is_known)
        return value

    def _fill(self, number: Any, value: Any, forms: tuple[Any, Any, Any], is_known: bool) -> None:
        """Give an object the state, the items and the pairs of its form."""
        state, items, pairs = forms
        if self.allowed is None:
            self._set_state(value, self.decode(state), is_known)
        else:
            set_checked_state(value, self.decode(state))
            checked_filling(value, items, pairs)
            if has_own_state(type(value), self.packages):
                self.carriers.append((number, value))
        if items is not None:
            replace_items(value, [self.decode(item) for item in items])
        if pairs is not None:
            decoded = [(self.decode(key), self.decode(item)) for key, item in pairs]
            for kind in (collections.OrderedDict, dict):
                if isinstance(value, kind):
                    kind.clear(value)
            setter = (dict if has_plain_pairs(type(value)) else type(value)).__setitem__
            for key, item in decoded:
                setter(value, key, item)

    def _set_state(self, value: Any, state: Any, is_known: bool) -> None:
        """Set the state of an object, unless it is known and has this state: a class may repair state as it is set."""
        if is_known and has_own_state(type(value), self.packages):
            reduced = value.__reduce_ex__(2)
            held = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
            if self.texts([held]) == self.texts([state]) != ["?"]:
                return
        set_state(value, state)

    def decoded_alone(self, form: Any) -> Any:
        """Return the value of a form that stands alone (see ``own_state.py``)."""
        return type(self)(self.opaque, self.packages, self.allowed).decode(form)

    def _made_here(self, number: Any, value: Any, written: tuple[Any, ...]) -> Any:
        """Number a new object on the trusted side. Raises CannotEncode where a form would write to a known one."""
        known_number = self.numbers.get(id(value))
        is_known = known_number is not None and self.objects.get(known_number) is value
        if is_known and written != (None, None, None):
            raise CannotEncode(f"a {type(value).__name__} that is known as number {known_number}")
        return self._known(number, lambda: value)

    def _maker(self, method: str, place: Any) -> Any:
        """Return the maker of an object; on the trusted side only one that has made an object in a recorded answer."""
        if self.allowed is None:
            return self.decode(place)
        if place[0] != "g" or not self.allowed(f"{method} {place[1]}", place[2]):
            raise CannotEncode(f"{place!r} is not expected to make an object")
        return checked_maker(place[1], place[2], self.packages)

    def _known_as(self, number: Any, is_kind: Callable[[Any], bool]) -> Any:
        """Return a known object. Raises CannotEncode on the trusted side for an object of another kind."""
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
        with self.watched(number, value):
            self._fill_opaque(value, attributes, items, pairs)
        self.synced[number] = self.digests(value)
        return value

    def _fill_opaque(self, value: Any, attributes: Any, items: Any, pairs: Any) -> None:
        if attributes:
            decoded_attributes = self._decoded_attributes(value, attributes)
            value.__dict__.clear()
            value.__dict__.update(decoded_attributes)
        if items is not None:
            list.__setitem__(value, slice(None), [self.decode(item) for item in items])
        if pairs is not None:
            decoded = [(self.decode(key), self.decode(item)) for key, item in pairs]
            dict.clear(value)
            dict.update(value, decoded)

    def _decoded_attributes(self, value: Any, attributes: Any) -> dict[str, Any]:
        """Return an opaque object's attributes; on the trusted side only those that are data.

        Other private state of a solution, such as an object of a helper class, stays in the solution's process.
        """
        if self.allowed is None:
            return {name: self.decode(item) for name, item in attributes}
        decoded: dict[str, Any] = {}
        for name, form in attributes:
            try:
                item = self.decode(form)
            except CannotEncode:
                continue
            if is_plain_attribute(value, name, item):
                decoded[name] = item
        return decoded
