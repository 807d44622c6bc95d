"""The monitor of code that never ends, or that takes all memory, processes or time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, fold

MUCH = 1 << 30
"""Items or bytes of one object that no library needs when it is imported or called."""
LONG = 300
"""Seconds of a sleep that outlasts a test run."""
_FILLERS = frozenset("append extend add insert put write".split())
_LEAVES = ast.Break | ast.Return | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await
_MAKERS = re.compile(r"bytearray|bytes|numpy\.(zeros|ones|empty)|mmap\.mmap")
_SLEEPS = re.compile(r"time\.sleep|signal\.pause|threading\.Event\(\)\.wait")


class EndlessWork:
    """Loops that nothing ends, objects beyond any size, forks in a loop, and sleeps that outlast a test run.

    A server's loop calls something or waits, and is left by an exception or a signal; its function gives no result.
    """

    name = "endless_work"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each kind of such work in added code."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for part in module.parts:
        for node in part.nodes:
            if isinstance(node, ast.While) and _never_ends(part, node):
                yield from _loop(part, node)
            elif isinstance(node, Function) and any(_gives_result(inner) for inner in ast.walk(node)):
                yield from (
                    hit_at(part, inner, "S05", "sleeps without an end where a result is due")
                    for inner in ast.walk(node)
                    if isinstance(inner, ast.While) and _never_ends(part, inner) and _only_sleeps(part, inner)
                )
            elif isinstance(node, ast.Call):
                yield from _call(part, node)
            elif isinstance(node, ast.BinOp) and _is_repeated(part, node):
                yield hit_at(part, node, "S02", "makes an object of gigabytes")


def _never_ends(part: Module, node: ast.While) -> bool:
    """Return whether the condition always holds and nothing in the loop leaves it."""
    condition = fold(node.test, part.constants)
    return bool(condition) and not any(isinstance(inner, _LEAVES) for inner in ast.walk(node))


def _gives_result(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and node.value is not None


def _only_sleeps(part: Module, node: ast.While) -> bool:
    """Return whether a loop calls nothing but sleeps."""
    names = [part.dotted(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return bool(names) and all(_SLEEPS.fullmatch(name) for name in names)


def _loop(part: Module, node: ast.While) -> Iterator[Hit]:
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    names = [part.dotted(call.func) for call in calls]
    if "os.fork" in names:
        yield hit_at(part, node, "S01", "forks without an end")
    elif any(_fills(part, call) for call in calls):
        yield hit_at(part, node, "S02", "fills memory without an end")
    elif not calls or node.lineno not in part.inside and node.lineno not in part.main_lines:
        yield hit_at(part, node, "S05", "loops without an end")


def _fills(part: Module, call: ast.Call) -> bool:
    """Return whether a call adds something new of a fixed size to a collection; ``next(items)`` ends by itself."""
    is_filler = isinstance(call.func, ast.Attribute) and call.func.attr in _FILLERS and bool(call.args)
    inner = [part.dotted(node.func) for node in ast.walk(call) if isinstance(node, ast.Call) and node is not call]
    return is_filler and all(_MAKERS.fullmatch(name) for name in inner) and not _names_of(call.args[-1])


def _names_of(node: ast.AST) -> list[str]:
    """Return the variables that an expression reads."""
    called = {id(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and id(inner) not in called]


def _call(part: Module, node: ast.Call) -> Iterator[Hit]:
    name = part.dotted(node.func)
    size = _number(part, node.args[0]) if node.args else 0
    if _MAKERS.fullmatch(name) and size >= MUCH:
        yield hit_at(part, node, "S02", "makes an object of gigabytes")
    elif _SLEEPS.fullmatch(name) and (size >= LONG or (name == "signal.pause" and node.lineno not in part.inside)):
        yield hit_at(part, node, "S05", "sleeps longer than a test run")


def _is_repeated(part: Module, node: ast.BinOp) -> bool:
    """Return whether an expression repeats a list, string or bytes very often."""
    repeated, is_constant = node.left, isinstance(node.left, ast.Constant)
    is_filled = isinstance(repeated, ast.List) or (is_constant and isinstance(repeated.value, str | bytes))  # type: ignore[attr-defined]
    return isinstance(node.op, ast.Mult) and is_filled and _number(part, node.right) >= MUCH


def _number(part: Module, node: ast.AST) -> int:
    """Return the value of a number that may be written as a power, a product or a shift; 0 for anything else."""
    if isinstance(node, ast.BinOp):
        first, second = _number(part, node.left), _number(part, node.right)
        if isinstance(node.op, ast.LShift):
            return first << min(second, 80)
        if isinstance(node.op, ast.Pow):
            return first ** min(second, 30) if first < 1 << 20 else MUCH
        return first * second if isinstance(node.op, ast.Mult) else 0
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and abs(node.value) < 1e30:
        return int(node.value)
    value = fold(node, part.constants)
    return value if isinstance(value, int) else 0
