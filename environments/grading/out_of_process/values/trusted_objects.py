"""Limits of what an answer may make and change on the trusted side: data and objects, never code or a way to it.

The text of this file is also run inside sandboxes, after that of ``special_values.py``, on Python 3.8 and later. It is
not enough that a recorded answer has a name too: it may be that of a function that returns anything (``getattr``), and
attributes of an object could replace the methods that Python would call. So makers are classes, what they make is an
instance of them, methods are looked up on types, and an attribute is plain data that hides no method of its class.
"""

from __future__ import annotations

import collections
import dis
import functools
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from .places import CannotEncode, forget_state, made, resolve

CODE = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType),
    *(types.FrameType, types.TracebackType, types.GetSetDescriptorType, types.MemberDescriptorType),
    *(
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        types.MethodWrapperType,
        types.ClassMethodDescriptorType,
    ),
    *(property, staticmethod, classmethod, super, types.CellType, types.GeneratorType, types.CoroutineType),
)
"""Kinds of objects that no form makes and whose attributes no form sets."""
PURE_MAKERS = frozenset(
    (
        *(("builtins", "iter"), ("copyreg", "__newobj_ex__"), ("re", "_compile"), ("_codecs", "encode")),
        *(("codecs", "encode"), ("array", "_array_reconstructor"), ("zoneinfo", "ZoneInfo._unpickle")),
    )
)
"""Functions that make an object of plain parts and call none of their arguments."""
_FORBIDDEN_MODULES = frozenset(
    ("importlib", "_frozen_importlib", "operator", "_operator", "ctypes", "_ctypes", "types")
)
_FORBIDDEN_MODULES |= frozenset(("subprocess", "_posixsubprocess", "code", "codeop", "inspect", "gc", "sys"))
_HARMLESS = frozenset(("SimpleNamespace", "GenericAlias", "UnionType", "MappingProxyType"))
_REACHING = frozenset(
    ("getattr", "setattr", "delattr", "exec", "eval", "compile", "__import__", "vars", "globals", "locals", "open")
    + ("breakpoint", "input", "dir", "type", "super", "property")
)
"""Names of ``builtins`` that reach code from a value."""
_METHODS = (
    *(types.FunctionType, classmethod, staticmethod, types.MethodDescriptorType, types.ClassMethodDescriptorType),
    type(functools.lru_cache(len)),
)


def checked_value(module: str, name: str) -> Any:
    """Return what a module holds under a name. Raises CannotEncode for anything through which a value reaches code."""
    value = resolve(module, name)
    is_reaching = module == "builtins" and name.partition(".")[0] in _REACHING
    is_reaching |= isinstance(value, type) and issubclass(value, CODE)
    if is_reaching or isinstance(value, types.ModuleType) or _is_forbidden(value):
        raise CannotEncode(f"{module}:{name} does not come from an answer")
    return value


def _is_forbidden(value: Any) -> bool:
    module = getattr(value, "__module__", None) if isinstance(value, CODE) else type(value).__module__
    is_one = isinstance(module, str) and module.partition(".")[0] in _FORBIDDEN_MODULES
    return is_one and getattr(value, "__name__", type(value).__name__) not in _HARMLESS


def checked_maker(module: str, name: str, packages: Iterable[str]) -> Any:
    """Return the class or function that makes an object. Raises CannotEncode for one that could make anything.

    It is a class, a function of PURE_MAKERS, or what a class of the examined packages names in its ``__reduce__``.
    """
    make = resolve(module, name)
    is_class = isinstance(make, type) and not issubclass(make, CODE)
    is_function = isinstance(make, types.FunctionType) and module.partition(".")[0] in packages
    if (module, name) in PURE_MAKERS or ((is_class or is_function) and not _is_forbidden(make)):
        return make
    raise CannotEncode(f"{module}:{name} may not make an object")


def checked_object(method: str, make: Any, values: list[Any]) -> Any:
    """Return what a maker makes. Raises CannotEncode for anything but an instance of it, and for code."""
    if method in ("new", "content") and not isinstance(make, type):
        raise CannotEncode("only a class makes a new object")
    value = made(method, make, values)
    if isinstance(make, type) and make not in type(value).__mro__ or isinstance(value, CODE):
        raise CannotEncode(f"what should make an object made a {type(value).__name__}")
    return value


def on_type(kind: type, name: str) -> Any:
    """Return what a class holds under a name, without running any code; None when there is nothing."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def is_plain_attribute(value: Any, name: Any, item: Any) -> bool:
    """Return whether a form may set an attribute: no special one but ``__doc__`` and ``__name__``, and no method."""
    if type(name) is not str or name.startswith("__") and name.endswith("__"):
        return name in ("__doc__", "__name__") and (item is None or type(item) is str)
    return not isinstance(on_type(type(value), name), _METHODS)


def bound_method(owner: Any, name: Any, allowed: Callable[[str, str], bool]) -> Any:
    """Return a method of an object or class, looked up on its type. Raises CannotEncode."""
    if type(name) is not str or name.startswith("__") or not allowed("method", name):
        raise CannotEncode(f"method {name!r} is not expected here")
    is_class = isinstance(owner, type)
    method: Any = (
        None if isinstance(owner, CODE) and not is_class else on_type(owner if is_class else type(owner), name)
    )
    if not isinstance(method, _METHODS) or is_class and isinstance(method, types.FunctionType):
        raise CannotEncode(f"{type(owner).__name__} has no method {name!r}")
    kind: Any = type(method)
    return kind.__get__(method, None if is_class else owner, owner if is_class else type(owner))


def set_checked_state(value: Any, state: Any) -> None:
    """Set the state of an object on the trusted side, as ``set_state`` does on the other side. Raises CannotEncode.

    Only plain attributes are set, and ``__setstate__`` is that of the class.
    """
    if state is None:
        if not isinstance(value, CODE):
            forget_state(value, ())
        return
    if isinstance(value, CODE):
        raise CannotEncode(f"the state of a {type(value).__name__} is not an answer's")
    parts = state if type(state) is tuple else (state,)
    pairs = [pair for part in parts if type(part) is dict for pair in part.items()]
    for name, item in pairs:
        if not is_plain_attribute(value, name, item):
            raise CannotEncode(f"attribute {name!r} of a {type(value).__name__} is not an answer's")
    setter = on_type(type(value), "__setstate__")
    if setter is not None:
        type(value).__setstate__(value, state)
        return
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if attributes is not None:
        held = object.__getattribute__(value, "__dict__")
        new = dict(attributes)
        held.clear()
        held.update(new)
    for name, item in (slots or {}).items():
        if not isinstance(on_type(type(value), name), types.MemberDescriptorType):
            raise CannotEncode(f"{name!r} is missing from the slots of a {type(value).__name__}")
        object.__setattr__(value, name, item)


def checked_filling(value: Any, items: Any, pairs: Any) -> None:
    """Raise CannotEncode where an answer fills anything but a list or a dict."""
    if items is not None and not isinstance(value, (list, collections.deque)):
        raise CannotEncode(f"a {type(value).__name__} has no items")
    if pairs is not None and not isinstance(value, dict):
        raise CannotEncode(f"a {type(value).__name__} has no pairs")
    for name in ("clear", "extend"):
        if name in getattr(value, "__dict__", ()):
            raise CannotEncode(f"{name} is not an answer's")


def sets_cell(code: types.CodeType, name: str) -> bool:
    """Return whether a function, or one inside it, assigns to a variable of an outer function."""
    stores = ("STORE_DEREF", "DELETE_DEREF")
    if name not in code.co_freevars:
        return False
    if any(item.opname in stores and item.argval == name for item in dis.get_instructions(code)):
        return True
    return any(sets_cell(item, name) for item in code.co_consts if isinstance(item, types.CodeType))


def may_be_live(names: Iterable[tuple[str, str]]) -> bool:
    """Return whether one of the names in recorded answers stands for something that can be called."""
    for module, name in names:
        if module in ("live", "method"):
            return True
        place = module.partition(" ")[2] or module
        try:
            value = resolve(place, name)
        except (ImportError, AttributeError, ValueError, TypeError):
            continue
        is_function = isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) and place == module
        if is_function or isinstance(value, type) and on_type(value, "__call__") is not None and value is not type:
            return True
    return False
