"""Values as JSON, for calls between two processes that share nothing else.

The text of this file is also run inside sandboxes, so it needs the standard library alone and runs on Python 3.8 and
later. A *form* is the JSON of a value: ``None``, booleans, small integers and strings stand for themselves; everything
else is a list whose first element is a tag:

| form | value |
|---|---|
| ``["i", text]``, ``["f", text]``, ``["c", real, imaginary]`` | integer, float, complex |
| ``["s", hex]``, ``["b", base64]`` | a string with surrogates, bytes; ``["ba", n, base64]`` is a bytearray |
| ``["l", n, items]``, ``["t", items]`` | list, tuple |
| ``["S", n, items]``, ``["F", items]`` | set, frozenset, sorted by their JSON |
| ``["d", n, pairs]``, ``["D", pairs]`` | dict; the second is an object's own |
| ``["r", n]`` | the container or object with the number ``n``, which the same message has in full |
| ``["g", module, name]`` | a class, function, module (empty name) or constant that a module holds |
| ``["e", module, class, member]`` | a member of an enumeration; a combination of flags by its number |
| ``["m", n, method, pattern, text, start, end]`` | the match that a regular expression's method finds |
| ``["I", items, exception]`` | an iterator that gives the items, and then raises the exception (or None) |
| ``["o", n, maker, arguments, state, items, pairs]`` | an object as ``__reduce_ex__`` takes it apart (see ``made``) |
| ``["B", n, owner, name]`` | a bound method |
| ``["n", n, class]`` | a new *opaque* object, before its ``__init__`` |
| ``["h", n, attributes]`` | an opaque object that both sides know, with what the caller has changed since |
| ``["O", n, class, attributes, items, pairs]`` | an opaque object in an answer |
| ``["fn", n, ...]``, ``["k", n, ...]`` | a function or class of a test, by value |
| ``["L", n, attributes]`` | a function that stays where it was made |

A number names the same container or object in all calls of a test (see ``numbering.py``). An object is *opaque* where
its class is what the task examines: its private state is the solution's own business.
"""

from __future__ import annotations

import base64
import copyreg
import enum
import itertools
import re
import sys
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .numbering import Numbering
    from .own_state import NO_FORM, has_own_state
    from .places import CannotEncode, canonical, has_plain_pairs, is_of_tests, is_opaque, place_of, replay, text_of
    from .special_values import ITERATORS, is_text, is_used_up, made_from, match_parts, member_of
    from .stand_ins import bases_of, place_in_answer

MAX_NODES = 20_000
"""Most parts of the values of one call."""
MAX_ITEMS = 1_000
"""Most items that are taken from an iterator."""
_KEPT = (type, types.ModuleType, types.FunctionType, str, int, float, tuple, list, dict, set, bytearray)


class Encoder(Numbering):
    """Turns the values of one test's calls into forms; see ``Values`` for both ways."""

    def __init__(self, opaque: Iterable[str] = (), packages: Iterable[str] = ()) -> None:
        super().__init__()
        self.opaque = frozenset(opaque)
        self.packages = frozenset(packages)
        self.synced: dict[Any, dict[str, str]] = {}
        self.nodes = 0
        self.classes: dict[str, Any] = {}
        self.is_digest = False
        self.carriers: list[tuple[Any, Any]] = []
        """The objects of the message, with their numbers, whose class defines itself how they are pickled."""
        self._written: set[Any] = set()
        self._constants: Any = None

    def begin(self, answering: str = "") -> None:
        """Start a message: a call, or the answer to the call ``answering``. Each object is written in full once."""
        self.nodes, self.classes, self.carriers = 0, {}, []
        self.number_from(answering)
        self._written = set()
        self._constants = None

    def encode(self, value: Any) -> Any:
        """Return the form of a value. Raises CannotEncode."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise CannotEncode("the values are too large")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -(2**53) < value < 2**53 else ["i", str(value)]
        if kind is str:
            return value if value.isascii() or is_text(value) else ["s", value.encode("utf-8", "surrogatepass").hex()]
        if kind is float:
            return ["f", repr(value)]
        if kind is complex:
            return ["c", repr(value.real), repr(value.imag)]
        if kind is bytes:
            return ["b", base64.b64encode(value).decode()]
        if kind is tuple:
            return ["t", [self.encode(item) for item in value]]
        if kind is frozenset:
            return ["F", self._sorted(value)]
        if kind is types.ModuleType:
            return ["g", value.__name__, ""]
        if isinstance(value, enum.Enum) and member_of(value) is not None:
            return ["e", *place_of(kind), member_of(value)]
        if is_used_up(value):
            return ["I", [], None]
        if kind is types.GeneratorType:
            raise CannotEncode("an iterator inside another value")
        return self._encode_shared(value, kind)

    def encode_result(self, value: Any) -> tuple[Any, Any]:
        """Return the form of an argument or a result, and the value to pass on: an iterator is read and made again."""
        if not isinstance(value, ITERATORS):
            return self.encode(value), value
        items: list[Any] = []
        failure = None
        try:
            for item in itertools.islice(value, MAX_ITEMS + 1):
                items.append(item)
        except Exception as error:  # noqa: BLE001  the code's own
            failure = error
        if len(items) > MAX_ITEMS:
            raise CannotEncode("the iterator does not end")
        form = ["I", [self.encode(item) for item in items], None if failure is None else self.exception(failure)]
        return form, replay(items, failure, ())

    def exception(self, error: BaseException) -> Any:
        """Return the form of an exception: its class, its text and, where they can be encoded, its arguments."""
        arguments = self.optional(list(error.args))
        return [self._class(type(error)), text_of(error), arguments and arguments[2]]

    def optional(self, value: Any) -> Any:
        """Return the form of a value that may be left out, None where it has no form."""
        written = set(self._written)
        try:
            return self.encode(value)
        except CannotEncode:
            self._written = written
            return None

    def is_opaque(self, kind: type) -> bool:
        """Return whether the two sides do not share the state of a class's objects."""
        return is_opaque(kind, self.opaque)

    def new_object(self, value: Any) -> Any:
        """Return the form of an opaque object that was just made and has no state yet."""
        number = self.add(value)
        self._written.add(number)
        self.synced[number] = self.digests(value)
        return ["n", number, self.encode(type(value))]

    def digests(self, value: Any) -> dict[str, str]:
        """Return the attributes of an object as texts that differ from earlier ones where an attribute has changed."""
        forms = {name: (self.alone(item), item) for name, item in getattr(value, "__dict__", {}).items()}
        return {name: f"{id(item)}" if form is NO_FORM else canonical(form) for name, (form, item) in forms.items()}

    def alone(self, value: Any) -> Any:
        """Return the form of a value as a message of its own, ``["?"]`` for a value that has no form."""
        other = type(self)(self.opaque, self.packages)
        other.is_digest = True
        other.begin("0")
        try:
            return other.encode(value)
        except (CannotEncode, RecursionError):
            return NO_FORM

    def _sorted(self, values: Iterable[Any]) -> list[Any]:
        return sorted((self.encode(item) for item in values), key=canonical)

    def _encode_shared(self, value: Any, kind: type) -> Any:
        number = self.numbers.get(id(value))
        if number is not None and number in self._written:
            return ["r", number]
        is_opaque = self.is_opaque(kind)
        if number is None:
            constant = self._constant(value)
            if constant is not None:
                return ["g", *constant]
            if is_opaque and not self.answering:
                raise CannotEncode(f"a {kind.__name__} that was not made by a call of this test")
            if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
                return self._encode_code(value)
            number = self.add(value)
        self._written.add(number)
        if isinstance(value, (type, types.FunctionType)):
            return self.encode_known_code(value, number)
        if is_opaque:
            return self._encode_opaque(value, number) if self.answering else self._encode_changes(value, number)
        if kind is list:
            return ["l", number, [self.encode(item) for item in value]]
        if kind is dict:
            return ["d", number, self._pairs(value.items())]
        if kind is set:
            return ["S", number, self._sorted(value)]
        if kind is bytearray:
            return ["ba", number, base64.b64encode(bytes(value)).decode()]
        if kind is re.Match:
            return ["m", number, *map(self.encode, match_parts(value))]
        return self._encode_object(value, number)

    def _pairs(self, items: Iterable[Any]) -> list[Any]:
        return [[self.encode(key), self.encode(item)] for key, item in items]

    def _encode_code(self, value: Any) -> Any:
        try:
            return ["g", *place_of(value)]
        except CannotEncode:
            if isinstance(value, types.BuiltinFunctionType) and isinstance(
                value.__self__, (types.ModuleType, type(None))
            ):
                raise
        number = self.add(value)
        self._written.add(number)
        is_method = isinstance(value, types.BuiltinFunctionType)
        return self._encode_object(value, number) if is_method else self.encode_known_code(value, number)

    def encode_known_code(self, value: Any, number: Any) -> Any:
        """Return the form of a function or class that no module holds (see ``code_encoding.py``)."""
        raise NotImplementedError

    def _encode_object(self, value: Any, number: Any) -> Any:
        try:
            reducer = copyreg.dispatch_table.get(type(value))
            reduced = reducer(value) if reducer else value.__reduce_ex__(2)
        except Exception as error:
            raise CannotEncode(f"a {type(value).__name__} has no form ({type(error).__name__})") from error
        if isinstance(reduced, str):
            return ["g", type(value).__module__, reduced]
        if self.answering and not self.is_digest and has_own_state(type(value), self.packages):
            self.carriers.append((number, value))
        make, arguments, state, items, pairs = (tuple(reduced) + (None,) * 5)[:5]
        if make is getattr:
            return ["B", number, self.encode(arguments[0]), arguments[1]]
        if make is getattr(copyreg, "__newobj__", None):
            make = arguments[0]
            method, arguments = made_from(value, arguments[1:], self.opaque)
        elif make is copyreg._reconstructor:  # type: ignore[attr-defined]
            method, make, arguments = "new", arguments[0], () if arguments[2] is None else (arguments[2],)
        else:
            method = "call"
        return [
            *("o", number, [method, self._class(make)], [self.encode(item) for item in arguments]),
            self._state(state, number),
            None if items is None else [self.encode(item) for item in items],
            None if pairs is None else self._pairs(dict.items(value) if has_plain_pairs(type(value)) else pairs),
        ]

    def _class(self, kind: Any) -> Any:
        """Return the form of an object's maker, and note the bases of a class of the packages in an answer."""
        is_answer_s = self.answering and isinstance(kind, type) and id(kind) not in self.numbers
        form = place_in_answer(kind) if is_answer_s else self.encode(kind)
        bases = bases_of(kind, self.packages) if self.answering and isinstance(kind, type) and form[0] == "g" else []
        if bases:
            self.classes[f"{form[1]}:{form[2]}"] = bases
        return form

    def _state(self, state: Any, number: Any) -> Any:
        """Return the form of an object's state: its dict is the object's own and gets no number."""
        if type(state) is dict:
            items = state.items()
            return ["D", [[self.encode(name), self.owned(number, name, item, self.encode)] for name, item in items]]
        if type(state) is tuple and len(state) == 2 and all(type(part) in (dict, type(None)) for part in state):
            return ["t", [self._state(part, number) for part in state]]
        return self.encode(state)

    def _encode_opaque(self, value: Any, number: Any) -> Any:
        attributes_held = sorted(getattr(value, "__dict__", {}).items())
        forms = [(name, item, self.owned(number, name, item, self.optional)) for name, item in attributes_held]
        attributes = [[name, form] for name, item, form in forms if item is None or form is not None]
        items = [self.encode(item) for item in list.__iter__(value)] if isinstance(value, list) else None
        pairs = self._pairs(dict.items(value)) if isinstance(value, dict) else None
        if not self.is_digest:
            self.synced[number] = self.digests(value)
        return ["O", number, self._class(type(value)), attributes, items, pairs]

    def _encode_changes(self, value: Any, number: Any) -> Any:
        """Return a known opaque object with the attributes that changed since the last answer."""
        before, now = self.synced.get(number, {}), self.digests(value)
        self.synced[number] = now
        changed = [name for name in now if now[name] != before.get(name)]
        gone = [[name] for name in before if name not in now]
        return ["h", number, [[name, self.encode(value.__dict__[name])] for name in sorted(changed)] + sorted(gone)]

    def _constant(self, value: Any) -> Any:
        """Return the module and the name of an object that a module of the packages holds, else None."""
        if isinstance(value, _KEPT):
            return None
        if self._constants is None:
            self._constants = {
                id(item): (module.__name__, name)
                for module in list(sys.modules.values())
                if getattr(module, "__name__", "").partition(".")[0] in self.packages
                and not is_of_tests(module.__name__)
                for name, item in list(vars(module).items())
                if not isinstance(item, _KEPT)
            }
        return self._constants.get(id(value))
