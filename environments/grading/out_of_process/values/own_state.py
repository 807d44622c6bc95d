"""Attributes of objects whose class defines itself how they are pickled, sent beside their state.

The text of this file is also run inside sandboxes, after that of ``places.py``, on Python 3.8 and later. A class with a
``__getstate__``, ``__setstate__`` or ``__reduce__`` of its own may compute its attributes again: an object that a wrong
method left damaged would arrive repaired. So an answer also holds the real attributes of such objects (``raw``), and
the trusted side sets them where its objects differ. Only attributes are sent that were plain data, and the same in
every run of the task's own solution: the test decides about them, and a solution's private ones do not count.
"""

from __future__ import annotations

import copyreg
import types
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .places import CannotEncode, canonical
    from .trusted_objects import is_plain_attribute, on_type

NO_FORM = ["?"]
"""Stands for an attribute that cannot be encoded."""
_OWN = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")


def has_own_state(kind: type, packages: Iterable[str]) -> bool:
    """Return whether a class of the packages defines itself how its objects are pickled or set up again."""
    tops = frozenset(packages)
    for name in _OWN:
        owner = next(base for base in (*kind.__mro__, None) if base is None or name in vars(base))
        if owner not in (None, object) and str(owner.__module__).partition(".")[0] in tops:
            return True
    return kind in copyreg.dispatch_table and str(kind.__module__).partition(".")[0] in tops


def raw_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object as they are, those in slots too, without running any code of its class."""
    try:
        attributes = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        attributes = {}
    for base in type(value).__mro__:
        for name, member in list(vars(base).items()):
            if isinstance(member, types.MemberDescriptorType) and name not in attributes:
                try:
                    attributes[name] = member.__get__(value, type(value))
                except AttributeError:
                    continue
    return attributes


def raw_forms(values: Any, number: Any, value: Any) -> list[Any]:
    """Return an object's number, class and attributes as forms that stand alone."""
    kind = type(value)
    attributes = {name: values.alone(item) for name, item in raw_attributes(value).items() if type(name) is str}
    return [number, f"{kind.__module__}:{kind.__qualname__}", attributes]


def set_raw(values: Any, entries: Any, names: Mapping[str, Iterable[str]]) -> None:
    """Set the attributes of an answer's objects that ``entries`` lists. Raises CannotEncode.

    ``names`` are the attributes that count, by class. The entries must list them for each such object in the answer.
    """
    claims: dict[Any, Any] = {}
    for number, _, attributes in entries:
        if type(attributes) is not dict or number not in values.objects:
            raise CannotEncode(f"attributes of the unknown number {number!r}")
        claims[number] = attributes
    for number, value in values.carriers:
        if _counted(value, names) and number not in claims:
            raise CannotEncode(f"the attributes of number {number!r} are missing")
    for number, attributes in claims.items():
        value = values.objects[number]
        if _counted(value, names):
            with values.watched(number, value):
                _set(values, value, attributes, _counted(value, names))


def _counted(value: Any, names: Mapping[str, Iterable[str]]) -> list[str]:
    return sorted(names.get(f"{type(value).__module__}:{type(value).__qualname__}", ()))


def _set(values: Any, value: Any, attributes: Mapping[str, Any], names: Iterable[str]) -> None:
    held = raw_attributes(value)
    for name in names:
        if name not in attributes:
            if name in held:
                object.__delattr__(value, name)
        elif name not in held or canonical(values.alone(held[name])) != canonical(attributes[name]):
            item = values.decoded_alone(attributes[name])
            is_slot = isinstance(on_type(type(value), name), types.MemberDescriptorType)
            if not is_plain_attribute(value, name, item):
                raise CannotEncode(f"attribute {name!r} of a {type(value).__name__} is not an answer's")
            if is_slot:
                object.__setattr__(value, name, item)
            else:
                object.__getattribute__(value, "__dict__")[name] = item
