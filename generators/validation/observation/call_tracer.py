"""Call tracer: beside running tests, it writes down the calls that test code makes into the package.

``run_tests`` takes it as a ``Crossing``. The text of this file runs in the sandbox of the tests, on Python 3.8 and
later, after ``public_names.py`` and ``literal_forms.py``.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the texts of those files have defined these names already
    from .literal_forms import MARK, Forms, Line, Unwritable
    from .public_names import PublicNames, has_closure, unwrapped

MAX_RECORDED = 120
"""Most calls of one test that are written down."""
_UNARY = {
    "__len__": "len({0})",
    "__str__": "str({0})",
    "__repr__": "repr({0})",
    "__bool__": "bool({0})",
    "__int__": "int({0})",
    "__float__": "float({0})",
    "__bytes__": "bytes({0})",
    "__abs__": "abs({0})",
    "__neg__": "-{0}",
    "__iter__": "list({0})",
    "__reversed__": "list(reversed({0}))",
    "__next__": "next({0})",
    "__hash__": "hash({0})",
}
_BINARY = {
    "__contains__": "{1} in {0}",
    "__getitem__": "{0}[{1}]",
    "__delitem__": "del {0}[{1}]",
    "__eq__": "{0} == {1}",
    "__ne__": "{0} != {1}",
    "__lt__": "{0} < {1}",
    "__le__": "{0} <= {1}",
    "__gt__": "{0} > {1}",
    "__ge__": "{0} >= {1}",
    "__format__": "format({0}, {1})",
}
_SIGNS = dict(
    pair.split()
    for pair in (
        *("add +", "sub -", "mul *", "truediv /", "floordiv //", "mod %", "pow **"),
        *("and &", "or |", "xor ^", "matmul @", "lshift <<", "rshift >>"),
    )
)
_BINARY.update({f"__{name}__": f"{{0}} {sign} {{1}}" for name, sign in _SIGNS.items()})
_BINARY.update({f"__r{name}__": f"{{1}} {sign} {{0}}" for name, sign in _SIGNS.items()})
_RETURNS = ("RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "INSTRUMENTED_RETURN_VALUE")
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class CallTracer:
    """The calls of a test run, test by test; ``job`` has the packages and the files that hold test code."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.root = os.getcwd() + os.sep
        self.packages, self.tests = job["packages"], frozenset(job["tests"])
        self.kinds: dict[types.CodeType, str] = {}
        self.calls: list[dict[str, Any]] = []

    def start(self, test: str) -> None:
        """Begin a test: no object of another test is known."""
        self.calls, self.kept, self.seen = [], [], set()  # type: ignore[var-annotated]
        self.active: types.FrameType | None = None
        self.current: dict[str, Any] | None = None
        self.names: PublicNames | None = None
        self.numbers: dict[int, int] = {}
        self.objects: dict[int, Any] = {}
        self.made: dict[types.CodeType, list[tuple[Any, int, str]]] = {}  # functions that calls gave
        sys.setprofile(self._profile)

    def stop(self) -> dict[str, Any]:
        """End a test and return its calls."""
        sys.setprofile(None)
        return {"calls": self.calls}

    def _profile(self, frame: types.FrameType, event: str, value: Any) -> None:
        if event == "return" and frame is self.active:
            self.active = None
            if self.current is not None:
                self._end(self.current, frame, value)
        elif event == "call" and self.active is None and frame.f_back is not None and len(self.calls) < MAX_RECORDED:
            if self._kind(frame.f_back) != "test" or self._kind(frame) == "test":
                return
            if frame.f_code.co_flags & _RESUMED:
                if id(frame) in self.seen:
                    return
                self.seen.add(id(frame))
                self.kept.append(frame)
            self.active, self.current = frame, None
            with contextlib.suppress(Exception):  # objects of the package may fail when they are looked at
                self.current = self._begin(frame)

    def _kind(self, frame: types.FrameType) -> str:
        code = frame.f_code
        if code not in self.kinds:
            name = code.co_filename
            path = name[len(self.root) :] if name.startswith(self.root) else ""
            is_test = path in self.tests or name.startswith("<doctest")
            self.kinds[code] = "test" if is_test else "other"
        return self.kinds[code]

    def _is_test_file(self, path: str) -> bool:
        return os.path.abspath(path)[len(self.root) :] in self.tests

    # --- what is called -------------------------------------------------------------------------------------

    def _begin(self, frame: types.FrameType) -> dict[str, Any] | None:
        """Return the record of a call that begins; None for one that is not of interest. Raises Unwritable."""
        if self.names is None:
            self.names = PublicNames(self.packages, self._is_test_file)
        line, forms = Line(), Forms(self.names.text, self.numbers)
        place = self.names.function_of(frame)
        if place is not None:
            function, module, name = place
            line.imports.add("from {} import {}".format(module, name.partition(".")[0]))
            text = f"{name}({self._arguments(frame, function, line, forms, 0)})"
            return self._record(frame, text, line)
        for function, number, name in self.made.get(frame.f_code, []):
            if has_closure(function, frame):
                line.uses.append(number)
                text = f"{MARK}{number}{MARK}{name}({self._arguments(frame, function, line, forms, 0)})"
                return self._record(frame, text, line, receiver=id(self.objects[number]))
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if first is None or not self.names.is_own(
            getattr(first if isinstance(first, type) else type(first), "__module__", "")
        ):
            return None
        return self._method(frame, first, line, forms)

    def _method(self, frame: types.FrameType, first: Any, line: Line, forms: Forms) -> dict[str, Any] | None:
        """Return the record of a call of a method of ``first``, an object or a class."""
        name = frame.f_code.co_name
        if name in ("__init__", "__new__"):
            return self._construction(frame, first, line, forms)
        item, function = _member(first, frame.f_code)
        if function is None or name in ("__init_subclass__", "__set_name__", "__enter__", "__exit__", "__del__"):
            raise Unwritable
        receiver = forms.form(first, line)
        if isinstance(item, property):
            value = forms.form(frame.f_locals[frame.f_code.co_varnames[1]], line) if item.fset is function else ""
            text = f"{receiver}.{name} = {value}" if value else f"{receiver}.{name}"
            return self._record(frame, text, line, receiver=id(first), is_statement=bool(value))
        if type(item).__name__ in ("cached_property", "reify", "lazyproperty"):
            return self._record(frame, f"{receiver}.{name}", line, receiver=id(first))
        if name.startswith("__") and name.endswith("__") and name != "__call__":
            return self._operator(frame, function, receiver, line, forms, first)
        if name.startswith("_") and name != "__call__":
            raise Unwritable
        arguments = self._arguments(frame, function, line, forms, 1)
        dotted = receiver if name == "__call__" else f"{receiver}.{name}"
        return self._record(frame, f"{dotted}({arguments})", line, receiver=id(first))

    def _construction(self, frame: types.FrameType, first: Any, line: Line, forms: Forms) -> dict[str, Any] | None:
        is_new = frame.f_code.co_name == "__new__"
        built = first if is_new else type(first)
        if not isinstance(built, type) or (is_new and isinstance(getattr(built, "__init__", None), types.FunctionType)):
            raise Unwritable
        function = next(
            (item for item in unwrapped(getattr(built, frame.f_code.co_name)) if item.__code__ is frame.f_code), None
        )
        if function is None:  # a base's constructor, called from a test's own class
            raise Unwritable
        text = f"{forms.form(built, line)}({self._arguments(frame, function, line, forms, 1)})"
        record = self._record(frame, text, line)
        if not is_new:
            record["made"] = first
        return record

    def _operator(
        self, frame: types.FrameType, function: Any, receiver: str, line: Line, forms: Forms, first: Any
    ) -> dict[str, Any]:
        code, name = frame.f_code, frame.f_code.co_name
        values = [frame.f_locals[item] for item in code.co_varnames[1 : code.co_argcount]]
        defaults = function.__defaults__ or ()
        while defaults and values and _same(values[-1], defaults[-1]):  # parameters that an operator never gives
            values, defaults = values[:-1], defaults[:-1]
        if name in ("__getattr__", "__getattribute__", "__delattr__", "__setattr__"):
            if not (isinstance(values[0], str) and values[0].isidentifier() and not values[0].startswith("_")):
                raise Unwritable
            text = f"{receiver}.{values[0]}"
            text = f"del {text}" if name == "__delattr__" else text
            text = f"{text} = {forms.form(values[1], line)}" if name == "__setattr__" else text
        elif name == "__setitem__":
            text = "{}[{}] = {}".format(receiver, *[forms.form(item, line) for item in values])
        elif name in _UNARY and not values:
            text = _UNARY[name].format(receiver)
        elif name in _BINARY and len(values) == 1:
            key = forms.form(values[0], line)
            is_slice = name.endswith("item__") and type(values[0]) is slice
            text = _BINARY[name].format(receiver, _slice(values[0], forms, line) if is_slice else key)
        else:
            raise Unwritable
        is_statement = name in ("__setitem__", "__setattr__", "__delattr__", "__delitem__")
        return self._record(frame, text, line, receiver=id(first), is_statement=is_statement)

    def _arguments(self, frame: types.FrameType, function: Any, line: Line, forms: Forms, skipped: int) -> str:
        """Return the arguments of a call as a user would write them: defaults are left out."""
        code, values = frame.f_code, frame.f_locals
        count, keywords = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames
        last = function.__defaults__ or ()
        defaults = {name: last[number] for number, name in enumerate(names[count - len(last) : count])}
        only = getattr(code, "co_posonlyargcount", 0)
        more: tuple[Any, ...] = ()
        position = count + keywords
        if code.co_flags & inspect.CO_VARARGS:
            more, position = values[names[position]], position + 1
        extra = values[names[position]] if code.co_flags & inspect.CO_VARKEYWORDS else {}
        parts: list[str] = []
        is_gap = False
        for number, name in enumerate(names[skipped:count], skipped):
            value = values[name]
            if name in defaults and _same(value, defaults[name]) and not more:
                is_gap = True
                continue
            by_position = more or number < only or (name not in defaults and not is_gap)
            if number < only and is_gap:
                raise Unwritable
            parts.append(("" if by_position else f"{name}=") + forms.form(value, line))
        parts += [forms.form(value, line) for value in more]
        for name in names[count : count + keywords]:
            default = (function.__kwdefaults__ or {}).get(name, inspect.Parameter.empty)
            if not _same(values[name], default):
                parts.append(f"{name}={forms.form(values[name], line)}")
        for name, value in extra.items():
            parts.append(f"{name}={forms.form(value, line)}" if name.isidentifier() else _unwritable())
        return ", ".join(parts)

    # --- records --------------------------------------------------------------------------------------------

    def _record(
        self, frame: types.FrameType, text: str, line: Line, receiver: int = 0, is_statement: bool = False
    ) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": text,
            "imports": sorted(line.imports),
            "uses": sorted(set(line.uses)),
            "receiver": self.numbers.get(receiver),
            "is_statement": is_statement,
            "is_lazy": bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and not text.startswith("list("),
            "makes": None,
            "type": "",
            "raised": False,
            "silent": False,
        }
        if frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise Unwritable
        self.calls.append(record)
        return record

    def _end(self, record: dict[str, Any], frame: types.FrameType, value: Any) -> None:
        """Add to a record how its call ended; its object, if it makes one, can be used by later lines."""
        code = frame.f_code.co_code
        record["raised"] = _opcode_name(code[frame.f_lasti]) not in _RETURNS if frame.f_lasti >= 0 else False
        if record["raised"]:
            record.pop("made", None)
            return
        value = record.pop("made", value)
        record["silent"] = value is None
        is_simple = value is None or isinstance(value, (bool, int, float, str, bytes, type, types.ModuleType))
        if record["is_statement"] or record["is_lazy"] or is_simple or id(value) in self.numbers:
            return
        if type(value) in (list, tuple, dict, set, frozenset):
            return
        record["is_lazy"] = hasattr(type(value), "__next__") and not record["text"].startswith("list(")
        number = record["makes"] = self.numbers[id(value)] = len(self.kept)
        record["type"] = type(value).__name__
        self.kept.append(value)
        self.objects[number] = value
        if hasattr(value, "__code__") or hasattr(value, "__wrapped__"):
            for name, item in [("", value), *((f".{key}", item) for key, item in vars(value).items() if key[0] != "_")]:
                for function in unwrapped(item):
                    self.made.setdefault(function.__code__, []).append((function, number, name))


def _opcode_name(code: int) -> str:
    import dis

    return dis.opname[code]


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, (int, float, str, bytes, tuple)) and value == default


def _slice(value: slice, forms: Forms, line: Line) -> str:
    start, stop, step = (
        "" if item is None else forms.form(item, line) for item in (value.start, value.stop, value.step)
    )
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _unwritable() -> str:
    raise Unwritable


def _member(first: Any, code: types.CodeType) -> tuple[Any, Any]:
    """Return the attribute of the class whose function a code is, and that function; Nones when there is none."""
    for kind in first.__mro__ if isinstance(first, type) else type(first).__mro__:
        item = vars(kind).get(code.co_name)
        if isinstance(first, type) and not isinstance(item, classmethod):
            continue
        for function in (getattr(item, "fget", None), getattr(item, "fset", None), getattr(item, "func", None), item):
            for inner in unwrapped(function):
                if inner.__code__ is code:
                    return item, inner
    if isinstance(first, type) and type(first) is not type:  # the call of a class with its own metaclass
        item = vars(type(first)).get(code.co_name)
        if any(inner.__code__ is code for inner in unwrapped(item)):
            return item, next(inner for inner in unwrapped(item) if inner.__code__ is code)
    return None, None


def install_boundary(job: dict[str, Any]) -> CallTracer:
    """Return the tracer that informs ``run_tests`` about the calls of each test."""
    return CallTracer(job)
