"""Places of classes and functions, by which another process finds them again, and helpers of encoding and decoding.

The text of this file is also run inside sandboxes, before all others, on Python 3.8 and later.
"""

from __future__ import annotations

import contextlib
import copyreg
import dis
import importlib
import json
import sys
import types
from collections.abc import Collection
from typing import Any

CONTENT = (tuple, str, bytes, int, float)
"""Built-in types whose ``__new__`` gives an object its content for good."""


class CannotEncode(Exception):
    """Raised for a value that cannot be sent to another process, and for a form that may not be decoded."""


def resolve(module: str, name: str) -> Any:
    """Return what a module holds under a qualified name, the module itself for an empty one."""
    value: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in name.split(".") if name else ():
        value = getattr(value, part)
    return value


def is_of_tests(module: str) -> bool:
    """Return whether a module belongs to the tests: the solution's process does not have it."""
    return any(part.startswith("test") or part in ("conftest", "__main__") for part in module.split("."))


def place_of(value: Any) -> tuple[str, str]:
    """Return the module and the qualified name under which a class or function is found again.

    Raises CannotEncode for one that is not found under its own name, or in a test.
    """
    module, name = getattr(value, "__module__", None) or "builtins", getattr(value, "__qualname__", "")
    try:
        candidate = None if is_of_tests(module) else resolve(module, name)
    except (ImportError, AttributeError, ValueError, TypeError):
        candidate = None
    if candidate is value:
        return module, name
    if not is_of_tests(module):
        for other, item in list(vars(sys.modules.get(module, types)).items()):
            if item is value:
                return module, other
    raise CannotEncode(f"{type(value).__name__} {name or '?'} of {module} has no public place")


def canonical(form: Any) -> str:
    """Return a form as text: equal values have equal texts."""
    return json.dumps(form, sort_keys=True, separators=(",", ":"))


def text_of(error: BaseException) -> str:
    """Return an exception's text, cut to 2,000 characters."""
    try:
        return str(error)[:2000].encode("utf-8", "backslashreplace").decode()
    except Exception:  # noqa: BLE001  the code's own
        return ""


def replay(items: list[Any], failure: Any, remaining: Any) -> Any:
    """Yield the items, then raise the failure, or continue with the remaining ones."""
    yield from items
    if failure is not None:
        raise failure
    yield from remaining


def is_test_class(kind: type) -> bool:
    """Return whether a class is a test case of unittest."""
    return any(base.__name__ == "TestCase" for base in kind.__mro__)


def has_assertion(code: types.CodeType) -> bool:
    """Return whether a function's code holds an assertion, and so perhaps the value that a test expects."""
    if any(item.opname == "LOAD_ASSERTION_ERROR" for item in dis.get_instructions(code)):
        return True
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    return "AssertionError" in code.co_names or any(map(has_assertion, inner))


def global_names(code: types.CodeType) -> set[str]:
    """Return the names that a function and the functions in it look up outside themselves."""
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    return set(code.co_names).union(*(global_names(item) for item in inner))


def bare_object(kind: Any) -> Any:
    """Return an object of a class without running any of its code."""
    base = next(base for base in kind.__mro__ if not base.__flags__ & (1 << 9))
    return base.__new__(kind)


def set_state(value: Any, state: Any) -> None:
    """Set the state that ``__reduce_ex__`` returned for a like object."""
    if state is None:
        forget_state(value, ())
        return
    if hasattr(type(value), "__setstate__"):
        value.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes is not None:
        attributes_held = value.__dict__
        new_attributes = dict(attributes)
        attributes_held.clear()
        attributes_held.update(new_attributes)
    forget_state(value, (attributes or {}).keys() | (slots or {}).keys())
    for name, item in (slots or {}).items():
        object.__setattr__(value, name, item)


def forget_state(value: Any, names: Collection[str]) -> None:
    """Delete the attributes of an object that are not among ``names``, where its state shows all its attributes.

    A class that defines itself how its objects are pickled may leave something out: these objects stay as they are.
    """
    kind = type(value)
    defaults = ((name, getattr(object, name, None)) for name in ("__reduce_ex__", "__reduce__", "__getstate__"))
    if kind in copyreg.dispatch_table or any(getattr(kind, name, None) is not default for name, default in defaults):
        return
    held = getattr(value, "__dict__", {})
    for name in [name for name in held if name not in names]:
        del held[name]
    for name in copyreg._slotnames(kind):  # type: ignore[attr-defined]
        if name not in names:
            with contextlib.suppress(AttributeError):
                object.__delattr__(value, name)


def content_type(kind: Any) -> Any:
    """Return the built-in type that holds the content of a class's objects, None for any other class."""
    is_class = isinstance(kind, type) and kind not in CONTENT
    return next((base for base in CONTENT if issubclass(kind, base)), None) if is_class else None


def is_listed(kind: type, names: Collection[str]) -> bool:
    """Return whether names (``module:name``) include that of a class or of one of its bases."""
    return any(f"{base.__module__}:{base.__qualname__}" in names for base in kind.__mro__)


def is_opaque(kind: type, names: Collection[str]) -> bool:
    """Return whether a class is one of ``names`` and its objects hold nothing but private state."""
    return content_type(kind) is None and is_listed(kind, names)


def has_plain_pairs(kind: type) -> bool:
    """Return whether a class is a dictionary that leaves it to Python how its pairs are pickled."""
    is_default = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    return issubclass(kind, dict) and is_default


def made(method: str, make: Any, values: list[Any]) -> Any:
    """Return the object that a class or function makes of values; with the method ``new``, by ``__new__`` alone.

    With the method ``content``, the ``__new__`` of its built-in base makes it. Raises CannotEncode.
    """
    if method == "content":
        base = content_type(make)
        if base is None or [type(value) for value in values] != [base]:
            raise CannotEncode(f"not the content of a {getattr(make, '__name__', make)}")
        return base.__new__(make, *values)
    if method == "new":
        return make.__new__(make, *values)
    try:
        return make(*values)
    except TypeError:  # a tzinfo names no arguments, whatever its class needs
        if values or not isinstance(make, type):
            raise
        return bare_object(make)


def replace_items(value: Any, items: list[Any]) -> None:
    """Replace the items of a list or a deque."""
    if isinstance(value, list):
        value[:] = items
    else:  # a deque
        value.clear()
        value.extend(items)
