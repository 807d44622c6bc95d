"""Workloads: calls of a function at two sizes, and the hidden test that compares the operations of both.

An operation is an executed line of Python code, of whichever module, or a comparison or hash of an element. Elements
count themselves, so that a scan within C code is counted too; only code that makes no use of its input would escape.
The tracer has to be there when the call has ended: code that replaces or removes it fails the test.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from ....python.source import parse_or_empty
from .slowdowns import Function, Kind

SIZES = (60, 240)
"""Sizes at which operations are counted."""
LIMITS: dict[Kind, int] = {"lookup": 8, "early exit": 2, "cache": 2}
"""How many times as many operations the larger size may take: 4 for work in proportion, 16 for its square."""
MOST_CALLS = 4
PLACE = "elements"
"""The name that stands for the sized argument in a call."""

_TEST = '''\
"""How the work of {module}.{name} grows with its input, in operations."""

import collections
import itertools
import sys

import pytest

from {module} import {name}
{imports}
SIZES = {sizes}
MOST = 500_000
COUNTED = collections.Counter()


class Text(str):
    """A text that counts comparisons and hashes."""

    def __eq__(self, other):
        COUNTED["elements"] += 1
        return str.__eq__(self, other)

    def __hash__(self):
        COUNTED["elements"] += 1
        return str.__hash__(self)


class Number(int):
    """A number that counts comparisons and hashes."""

    def __eq__(self, other):
        COUNTED["elements"] += 1
        return int.__eq__(self, other)

    def __hash__(self):
        COUNTED["elements"] += 1
        return int.__hash__(self)


def texts(size):
    return [Text(f"t{{number}}") for number in range(size)]


def numbers(size):
    return [Number(number) for number in range(size)]


def again(items, size):
    return type(items)(list(items) * (size // len(items) + 1))


def calls(size):
    """Return the calls at one size."""
    return [
{calls}
    ]


def operations(call):
    """Return how many operations a call takes, with those of reading its result."""
    COUNTED.clear()

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            return None
        COUNTED["lines"] += event == "line"
        assert COUNTED["lines"] < MOST, f"more than {{MOST}} operations"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
        if hasattr(result, "__next__"):
            collections.deque(itertools.islice(result, MOST), maxlen=0)
        remaining = sys.gettrace()
    finally:
        sys.settrace(before)
    assert remaining is trace, "the trace function was replaced"
    return sum(COUNTED.values())


@pytest.mark.parametrize("number", range({count}))
def test_growth(number):
    small, large = (operations(calls(size)[number]) for size in SIZES)
    assert large <= {limit} * small, f"{{large}} operations at size {{SIZES[1]}}, {{small}} at size {{SIZES[0]}}"
'''


@dataclass(frozen=True)
class Workload:
    """Calls of one function."""

    module: str  # dotted name of its module
    name: str  # the function
    kind: Kind  # what the calls show
    calls: tuple[str, ...]  # expressions, with ``elements`` for the sized argument
    sized: tuple[str, ...]  # the sized argument of each call, as the test makes it
    imports: tuple[str, ...] = ()  # import statements that the calls need

    def test_source(self) -> bytes:
        """Return the hidden test file."""
        lines = [f"        lambda: {self._call(number)}," for number in range(len(self.calls))]
        return _TEST.format(
            module=self.module,
            name=self.name,
            imports="\n".join((*self.imports, "")),
            sizes=SIZES,
            calls="\n".join(lines),
            count=len(self.calls),
            limit=LIMITS[self.kind],
        ).encode()

    def _call(self, number: int) -> str:
        if self.kind == "cache":
            return f"[{self.calls[number]} for _ in range(size)]"
        return f"(lambda {PLACE}: {self.calls[number]})({self.sized[number]})"

    def tests(self, path: str) -> list[str]:
        """Return the ids of the tests."""
        return [f"{path}::test_growth[{number}]" for number in range(len(self.calls))]


def workload(module: str, function: Function, kind: Kind, tests: list[bytes]) -> Workload | None:
    """Return the calls of a function that test files make with plain arguments, and one of its own; None without any.

    The calls of a test file may use what it imports by absolute names.
    """
    expressions: dict[str, str] = {}
    imports: dict[str, None] = {}
    first: list[ast.expr] = []
    for source in tests:
        tree = parse_or_empty(source)
        imported = _imported(tree)
        for call, names in _calls(tree, function.name, imported):
            first += call.args[:1]
            for text, sized in _scaled(call, function.name, kind):
                if len(expressions) < MOST_CALLS and text not in expressions:
                    expressions[text] = sized
                    imports.update(dict.fromkeys(imported[name] for name in sorted(names) if name != function.name))
    takes_text = bool(first) and all(isinstance(node, ast.Constant | ast.JoinedStr) for node in first)
    if kind == "lookup" and _required(function) == 1 and not takes_text:
        expressions.setdefault(f"{function.name}({PLACE})", "texts(size)")
        expressions.setdefault(f"{function.name}(iter({PLACE}))", "texts(size)")
    if not expressions:
        return None
    return Workload(module, function.name, kind, tuple(expressions), tuple(expressions.values()), tuple(imports))


def _required(function: Function) -> int:
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the statement that imports each name of a test file, where one line in another file can do so."""
    statements: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                statements[alias.asname or alias.name] = ast.unparse(ast.ImportFrom(node.module, [alias], 0))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname or "." not in alias.name:
                    statements[alias.asname or alias.name] = ast.unparse(ast.Import([alias]))
    statements.pop("*", None)
    return statements


def _calls(tree: ast.Module, name: str, imported: dict[str, str]) -> Iterator[tuple[ast.Call, set[str]]]:
    """Yield the calls of a function whose arguments can be written elsewhere, with the imported names that they use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
            values = [*node.args, *(item.value for item in node.keywords)]
            used = set().union(*map(_free_names, values))
            if all(item.arg for item in node.keywords) and all(n in imported or hasattr(builtins, n) for n in used):
                yield node, used & imported.keys()


def _free_names(node: ast.expr) -> set[str]:
    """Return the names of an argument that are not its own parameters or loop variables."""
    bound = {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}
    bound |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} - bound


def _scaled(call: ast.Call, name: str, kind: Kind) -> Iterator[tuple[str, str]]:
    """Yield a call as text with each of its arguments that can be sized in turn, and that argument."""
    texts = [ast.unparse(node) for node in call.args]
    keywords = [f"{item.arg}={ast.unparse(item.value)}" for item in call.keywords]
    if kind == "cache":
        yield f"{name}({', '.join([*texts, *keywords])})", ""
        return
    for number, node in enumerate(call.args):
        sized = _sized(node, kind)
        if sized:
            arguments = [*texts[:number], PLACE, *texts[number + 1 :], *keywords]
            yield f"{name}({', '.join(arguments)})", sized


def _sized(node: ast.expr, kind: Kind) -> str:
    """Return the expression of a larger argument of the same sort; empty for one that has no size."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
        return "numbers(size)"
    try:
        value = ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError):
        return ""
    if not isinstance(value, list | tuple) or not value:
        return ""
    if kind == "early exit":
        return f"again({value!r}, size)"
    if all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return "numbers(size)"
    return "texts(size)" if all(isinstance(item, str) for item in value) else ""
