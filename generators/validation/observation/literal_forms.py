"""Literal forms: the text that evaluates to an equal value, for values whose text is short.

The text of this file runs in the sandbox of the tests, on Python 3.8 and later.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import math
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable
from typing import Any

MAX_FORM = 300
"""Longest text of one value."""
MAX_ITEMS, MAX_DEPTH = 20, 5
MAX_DEFINITION = 8
"""Most lines of a function that is written with its ``def``."""
MARK = "\0"
"""Stands before and after the number of an object that an earlier line makes."""
_PLAIN = (type(None), bool, int, str, bytes, complex, type(Ellipsis), type(NotImplemented), range)
_DATES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
_PLACES = ("/tmp/", "/workspace")


class Unwritable(Exception):
    """Raised for a value without a short literal form."""


class Line:
    """What one line needs: imports, functions of the test, and the numbers of objects that earlier lines make."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.uses: list[int] = []


class Forms:
    """Writes values as texts; ``numbers`` has the objects that earlier lines make, by their ``id``.

    ``name_of`` returns the public name of an object of the package, None without one, and adds its import to a set.
    """

    def __init__(self, name_of: Callable[[Any, set[str]], str | None], numbers: dict[int, int]) -> None:
        self.name_of, self.numbers = name_of, numbers

    def form(self, value: Any, line: Line, depth: int = 0) -> str:
        """Return the text of a value, and add to ``line`` what it needs. Raises Unwritable."""
        if id(value) in self.numbers:
            number = self.numbers[id(value)]
            line.uses.append(number)
            return f"{MARK}{number}{MARK}"
        if depth > MAX_DEPTH:
            raise Unwritable
        text = self._text(value, line, depth)
        if text is None or len(text) > MAX_FORM or any(place in text for place in _PLACES):
            raise Unwritable
        return text

    def _text(self, value: Any, line: Line, depth: int) -> str | None:
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return repr(value) if kind is not int or value.bit_length() < 256 else None
        for write in (self._container, self._standard, self._named, self._fields):
            text = write(value, line, depth)
            if text is not None:
                return text
        return None

    def _items(self, values: Any, line: Line, depth: int) -> list[str]:
        if len(values) > MAX_ITEMS:
            raise Unwritable
        return [self.form(item, line, depth + 1) for item in values]

    def _container(self, value: Any, line: Line, depth: int) -> str | None:
        kind = type(value)
        if kind is list:
            return "[{}]".format(", ".join(self._items(value, line, depth)))
        if kind is tuple:
            items = self._items(value, line, depth)
            return f"({items[0]},)" if len(items) == 1 else "({})".format(", ".join(items))
        if kind in (set, frozenset):
            items = sorted(self._items(value, line, depth))
            text = "{{{}}}".format(", ".join(items)) if items else "set()"
            return text if kind is set else "frozenset(%s)" % (text if items else "")
        if kind is dict:
            return self._dict(value, line, depth)
        if kind in (collections.OrderedDict, collections.Counter, collections.deque):
            line.imports.add(f"from collections import {kind.__name__}")
            inner = self._dict(value, line, depth) if isinstance(value, dict) else self.form(list(value), line, depth)
            return f"{kind.__name__}({inner})"
        if kind is slice:
            return "slice({})".format(", ".join(self._items((value.start, value.stop, value.step), line, depth)))
        return None

    def _dict(self, value: dict[Any, Any], line: Line, depth: int) -> str:
        keys, values = self._items(list(value), line, depth), self._items(list(value.values()), line, depth)
        return "{{{}}}".format(", ".join(f"{key}: {values[number]}" for number, key in enumerate(keys)))

    def _standard(self, value: Any, line: Line, depth: int) -> str | None:
        kind = type(value)
        if kind in _DATES:
            zone = getattr(value, "tzinfo", None)
            if zone is not None and type(zone) is not datetime.timezone:
                return None
            line.imports.add("import datetime")
            return repr(value)
        for allowed in (decimal.Decimal, fractions.Fraction, uuid.UUID):
            if kind is allowed:
                line.imports.add(f"from {allowed.__module__} import {allowed.__name__}")
                return repr(value)
        if isinstance(value, pathlib.PurePath) and kind.__module__.startswith("pathlib"):
            name = "Path" if isinstance(value, pathlib.Path) else kind.__name__
            line.imports.add(f"from pathlib import {name}")
            return f"{name}({str(value)!r})"
        if kind in (io.StringIO, io.BytesIO) and not value.closed and not value.tell():  # prose: ok
            line.imports.add("import io")
            return "io.{}({})".format(
                kind.__name__, self.form(value.getvalue(), line, depth) if value.getvalue() else ""
            )
        if kind is type(re.compile("")):
            line.imports.add("import re")
            flags = value.flags & ~(re.UNICODE if isinstance(value.pattern, str) else 0)
            names = [item.name for item in re.RegexFlag if item & flags and item.name and item.name.isupper()]
            if flags and sum(re.RegexFlag[name] for name in names) != flags:
                return None
            return "re.compile({})".format(", ".join([repr(value.pattern), *[f"re.{name}" for name in names[:1]]][:2]))
        if isinstance(value, BaseException) and kind.__module__ == "builtins" and not vars(value):
            return "{}({})".format(kind.__name__, ", ".join(self._items(value.args, line, depth)))
        return None

    def _named(self, value: Any, line: Line, depth: int) -> str | None:
        if isinstance(value, enum.Enum) and not isinstance(value, enum.Flag):
            return f"{self.form(type(value), line, depth)}.{value.name}"
        text = self.name_of(value, line.imports)
        if text is not None:
            return text
        if not isinstance(value, types.FunctionType):
            return None
        definition = definition_source(value)
        if definition is not None:
            line.imports.add(definition)
            return value.__name__
        return lambda_source(value)

    def _fields(self, value: Any, line: Line, depth: int) -> str | None:
        """Return the call that makes a record: a named tuple or a dataclass."""
        kind = type(value)
        if isinstance(value, type):
            return None
        if isinstance(value, tuple) and hasattr(kind, "_fields") and len(kind._fields) == len(value):
            pairs = [(name, value[number]) for number, name in enumerate(kind._fields)]
        elif dataclasses.is_dataclass(value) and all(item.init for item in dataclasses.fields(value)):
            pairs = [(item.name, getattr(value, item.name)) for item in dataclasses.fields(value)]
        else:
            return None
        name = self.form(kind, line, depth)
        return "{}({})".format(name, ", ".join(f"{key}={self.form(item, line, depth + 1)}" for key, item in pairs))


def standard_name(value: Any, imports: set[str]) -> str | None:
    """Return the name of a builtin, or of a function or class of the standard library; None for anything else."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not name.isidentifier():
        return None
    if module == "builtins":
        return name if getattr(sys.modules["builtins"], name, None) is value else None
    standard_modules = getattr(sys, "stdlib_module_names", ())
    module = {"_operator": "operator", "_functools": "functools", "_io": "io"}.get(module, module)
    if (
        module in standard_modules
        and not module.startswith("_")
        and getattr(sys.modules.get(module), name, None) is value
    ):
        imports.add(f"from {module} import {name}")
        return name
    return None


def definition_source(function: types.FunctionType, read: Callable[[str], str] | None = None) -> str | None:
    """Return the ``def`` of a function that a test defines in its own body and that needs nothing around it."""
    code = function.__code__
    test, separator, name = function.__qualname__.rpartition(".<locals>.")
    is_own = separator and name == code.co_name != "<lambda>" and test.rpartition(".")[2].startswith("test")
    if not is_own or not _is_alone(function):
        return None
    source, starting = _nodes_at(code, read)
    nodes = [node for node in starting if isinstance(node, ast.FunctionDef) and node.name == name]
    nodes = [node for node in nodes if not node.decorator_list]
    text = (ast.get_source_segment(source, nodes[0]) or "") if len(nodes) == 1 else ""
    first, *more = text.splitlines() or [""]
    indent = " " * (nodes[0].col_offset if nodes else 0)
    if not text or len(more) >= MAX_DEFINITION or any(line.strip() and not line.startswith(indent) for line in more):
        return None
    return "\n".join([first, *(line[len(indent) :] for line in more if line.strip())])


def _is_alone(function: types.FunctionType) -> bool:
    """Return whether a function uses only its parameters, which have no defaults, and builtins."""
    code = function.__code__
    if code.co_freevars or function.__defaults__ or function.__kwdefaults__:
        return False
    builtin_names = vars(sys.modules["builtins"])
    return all(name in builtin_names and name not in function.__globals__ for name in _global_names(code))


def lambda_source(function: types.FunctionType, read: Callable[[str], str] | None = None) -> str | None:
    """Return the source of a lambda that uses only its parameters and builtins; None for any other function."""
    code = function.__code__
    if code.co_name != "<lambda>" or not _is_alone(function):
        return None
    source, starting = _nodes_at(code, read)
    nodes = [node for node in starting if isinstance(node, ast.Lambda)]
    if len(nodes) != 1:
        return None
    text = ast.get_source_segment(source, nodes[0])
    return text if text and "\n" not in text else None


def _nodes_at(code: types.CodeType, read: Callable[[str], str] | None) -> tuple[str, list[ast.AST]]:
    """Return the source of a code object's file, and the nodes on its first line; none when it cannot be read."""
    try:
        source = (read or _read)(code.co_filename)
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return "", []
    return source, [node for node in ast.walk(tree) if getattr(node, "lineno", 0) == code.co_firstlineno]


def _read(path: str) -> str:
    return pathlib.Path(path).read_text("utf-8")


def _global_names(code: types.CodeType) -> set[str]:
    """Return the names in the source of a code object that are neither local nor attributes."""
    import dis

    names = {item.argval for item in dis.get_instructions(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names
