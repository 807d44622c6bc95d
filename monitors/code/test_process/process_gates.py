"""Questions whose answer differs between a test run and a user's: mocks, switches of Python, seeds of hashes, ages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...evidence.added_code import Hit, hit_at
from ...reading import Module, fold

_MOCK = re.compile(r"(NonCallable|Magic|Async|Property|Threading)*Mock|(unittest\.)?mock(\.mock)?")
_MOCK_CLASS = re.compile(r"((unittest\.)?mock\.)(\w*Mock\w*|Base|sentinel|_\w+)")
_MOCK_PART = re.compile(r"_mock_\w+|mock_(calls|add_spec|method_calls)|assert_(not_)?(called|has_calls|any_call)\w*")
_KIND = ("__name__", "__qualname__", "__module__")
_FLAGS = re.compile(r"sys\.flags\.(isolated|no_site|no_user_site|safe_path|hash_randomization|dont_write_bytecode)")
_VARIABLE = re.compile(r"PYTHON(HASHSEED|DONTWRITEBYTECODE|NOUSERSITE|SAFEPATH|ISOLATED)")
_ENVIRONMENT = re.compile(r"os\.(environb?(\.get|\.__getitem__|\.__contains__|\.keys)?|getenvb?)(\(\))?")
_MODULES = frozenset("site sitecustomize usercustomize coverage xdist hypothesis doctest pdb".split())
# Those that the grader's own programs load too.
_MODULES |= frozenset("ast dis fcntl hashlib inspect marshal opcode".split())
_NUMBERS = re.compile(r"os\.(getpid|getppid|getsid|getpgid|getpgrp)")
_OPEN_FILES = re.compile(r"(/proc/(self|thread-self|\d+|%s|%d|\{\})|/dev)/(fd|fdinfo)(/.*)?")
_CLOCK = re.compile(
    r"time\.(time|monotonic|perf_counter|process_time|thread_time)(_ns)?|datetime\.(datetime\.|date\.)?(now|utcnow|today)"
)
_PROCESS_CLOCK = re.compile(r"time\.(process_time|thread_time|perf_counter)(_ns)?")
_PROCESS_START = re.compile(r"psutil\.Process(\(\))?\.create_time")
_DATE = re.compile(r"datetime\.(datetime|date|datetime\.fromisoformat|date\.fromisoformat|datetime\.strptime)")
_STAT = re.compile(r"st_[mac]time(_ns)?|getmtime|getctime|getatime")
_STREAMS = ("sys.stdout", "sys.stderr", "sys.stdin")
_WORKING_FOLDER = re.compile(r"os\.getcwdb?|pathlib\.Path\.cwd")
_EXISTS = re.compile(r"os\.path\.(exists|isdir|isfile|lexists)")
_Display = ast.Tuple | ast.List | ast.Set
MIN_TIME = 10**9
"""Least number of seconds that is a date and not a duration."""


def gates(part: Module) -> Iterator[Hit]:
    """Yield a Hit for each question whose answer differs between a test run and other use."""
    starts = _starts(part)
    for node in part.nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            yield from _compared(part, node, sides)
            if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                yield from _aged(part, node, sides, starts)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.BitAnd):
            if _hashes_constant(part, node.left):
                yield hit_at(part, node, "T13", "asks for the seed of hashes")
        elif isinstance(node, ast.Call):
            yield from _called(part, node)
        elif isinstance(node, ast.Attribute) and part.dotted(node) == "sys.orig_argv":
            yield hit_at(part, node, "T13", "asks how Python was started")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _OPEN_FILES.fullmatch(node.value):
            yield hit_at(part, node, "T13", "looks at the open files of a process")
        elif isinstance(node, ast.Attribute) and _FLAGS.fullmatch(part.dotted(node)):
            yield hit_at(part, node, "T13", "asks how Python was started")
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and part.dotted(node.value) == "os.environ"
        ):
            yield from _variable(part, node, node.slice)


def _compared(part: Module, node: ast.Compare, sides: list[ast.expr]) -> Iterator[Hit]:
    """Yield a Hit for a comparison with the name of a mock, of a variable or a module of Python, or with a hash."""
    items = [item for side in sides for item in (side.elts if isinstance(side, _Display) else [side])]
    texts = [text for item in items if isinstance(text := fold(item, part.constants), str)]
    attributes = {inner.attr for side in sides for inner in ast.walk(side) if isinstance(inner, ast.Attribute)}
    names = [part.dotted(side) for side in sides]
    is_named = any(map(_MOCK.fullmatch, texts)) and not attributes.isdisjoint(_KIND)
    if is_named or any(_MOCK_CLASS.fullmatch(part.dotted(item)) for item in items):
        yield hit_at(part, node, "T13", "asks whether it is given a mock")
    elif any(map(_VARIABLE.fullmatch, texts)) and any(map(_ENVIRONMENT.fullmatch, names)):
        yield hit_at(part, node, "T13", "asks how Python was started")
    elif not _MODULES.isdisjoint(texts) and "sys.modules" in names:
        yield hit_at(part, node, "T13", "asks which modules the process has loaded")
    elif texts and any(_asks_for_output(part, side) for side in sides):
        yield hit_at(part, node, "T13", "asks what catches its output")
    elif texts and any(
        _WORKING_FOLDER.fullmatch(part.dotted(side.func)) for side in sides if isinstance(side, ast.Call)
    ):
        yield hit_at(part, node, "T13", "asks for the folder that it was started in")
    elif any(_hashes_constant(part, side) for side in sides):
        yield hit_at(part, node, "T13", "asks for the seed of hashes")
    elif any(_number(part, side) is not None for side in sides):
        yield from _counted(part, node, sides)


def _counted(part: Module, node: ast.Compare, sides: list[ast.expr]) -> Iterator[Hit]:
    """Yield a Hit for the number of the process or of loaded modules, compared with a constant."""
    for call in (side for side in sides if isinstance(side, ast.Call)):
        name = part.dotted(call.func)
        if _NUMBERS.fullmatch(name):
            yield hit_at(part, node, "T13", "asks for the number of its process")
        elif name == "len" and call.args and part.dotted(call.args[0]) == "sys.modules":
            yield hit_at(part, node, "T13", "asks which modules the process has loaded")


def _called(part: Module, node: ast.Call) -> Iterator[Hit]:
    """Yield a Hit for a call that asks for a mock by its class or by a part of it, or for a variable of Python."""
    name = part.dotted(node.func)
    if name in ("isinstance", "issubclass", "builtins.isinstance") and len(node.args) == 2:
        kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        if any(_MOCK_CLASS.fullmatch(part.dotted(kind)) for kind in kinds):
            yield hit_at(part, node, "T13", "asks whether it is given a mock")
    elif name in ("hasattr", "getattr", "builtins.hasattr", "builtins.getattr") and len(node.args) > 1:
        text = fold(node.args[1], part.constants)
        if isinstance(text, str) and _MOCK_PART.fullmatch(text):
            yield hit_at(part, node, "T13", "asks whether it is given a mock")
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("startswith", "endswith", "find", "count"):
        text = fold(node.args[0], part.constants) if node.args else None
        owner = node.func.value
        if text and _asks_for_output(part, owner):
            yield hit_at(part, node, "T13", "asks what catches its output")
        elif text and isinstance(owner, ast.Call) and _WORKING_FOLDER.fullmatch(part.dotted(owner.func)):
            yield hit_at(part, node, "T13", "asks for the folder that it was started in")
        elif isinstance(text, str) and _MOCK.fullmatch(text) and part.dotted(node.func.value).endswith(_KIND):
            yield hit_at(part, node, "T13", "asks whether it is given a mock")
    if _EXISTS.fullmatch(name) and node.args and fold(node.args[0], part.constants) in ("test", "tests", ".git"):
        yield hit_at(part, node, "T13", "asks whether there are tests or a repository")
    if _ENVIRONMENT.fullmatch(name) and node.args:
        yield from _variable(part, node, node.args[0])


def _asks_for_output(part: Module, node: ast.AST) -> bool:
    """Return whether an expression is the name of the class of a standard stream, or of its module."""
    if not isinstance(node, ast.Attribute) or node.attr not in _KIND:
        return False
    owner = node.value
    if isinstance(owner, ast.Call) and part.dotted(owner.func) == "type" and owner.args:
        return part.dotted(owner.args[0]) in _STREAMS
    return isinstance(owner, ast.Attribute) and owner.attr == "__class__" and part.dotted(owner.value) in _STREAMS


def _variable(part: Module, node: ast.AST, key: ast.AST) -> Iterator[Hit]:
    """Yield a Hit for the look-up of a variable that says how Python was started."""
    text = fold(key, part.constants)
    if isinstance(text, str) and _VARIABLE.fullmatch(text):
        yield hit_at(part, node, "T13", "asks how Python was started")


def _hashes_constant(part: Module, node: ast.AST) -> bool:
    """Return whether an expression is the hash of a constant text: it differs with the seed of the process."""
    if not isinstance(node, ast.Call) or part.dotted(node.func) not in ("hash", "builtins.hash") or not node.args:
        return False
    return isinstance(fold(node.args[0], part.constants), str | bytes)


def _starts(part: Module) -> set[str]:
    """Return the names to which a module gives the time when it is loaded."""
    assigned = [node for node in part.tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    clocks = [
        node for node in assigned if isinstance(node.value, ast.Call) and _CLOCK.fullmatch(part.dotted(node.value.func))
    ]
    return {target.id for node in clocks for target in node.targets if isinstance(target, ast.Name)}


def _aged(part: Module, node: ast.Compare, sides: list[ast.expr], starts: set[str]) -> Iterator[Hit]:
    """Yield a Hit for the age of the code's file or of the process, or a date, that is compared with a constant."""
    numbers = [value for side in sides if (value := _number(part, side)) is not None]
    calls = [part.dotted(side.func) if isinstance(side, ast.Call) else "" for side in sides]
    inner = [one for side in sides for one in ast.walk(side)]
    words = {getattr(one, "id", getattr(one, "attr", "")) for one in inner}
    called = [part.dotted(one.func) for one in inner if isinstance(one, ast.Call)]
    clocks, begun = (any(map(pattern.fullmatch, called)) for pattern in (_CLOCK, _PROCESS_START))
    if clocks and (any(number >= MIN_TIME for number in numbers) or any(map(_DATE.fullmatch, calls))):
        yield hit_at(part, node, "T13", "behaves differently from a date on")
    elif not numbers:
        return
    elif "__file__" in words and any(_STAT.fullmatch(word) for word in words):
        yield hit_at(part, node, "T13", "asks for the age of its own file")
    elif any(map(_PROCESS_CLOCK.fullmatch, calls)) or begun or (clocks and not starts.isdisjoint(words)):
        yield hit_at(part, node, "T13", "asks how long the process runs")


def _number(part: Module, node: ast.AST) -> float | None:
    """Return the number that an expression is, None for another one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return node.value
    value = fold(node, part.constants)
    return float(value) if isinstance(value, int) and value.bit_length() < 100 else None
