"""Calls whose results are asked for: arguments like those in the tests, and the program that observes the calls."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from ...python.source import parse_or_empty
from ...python.source_tree import SourceTree

MAX_ARGUMENTS = 160
"""Characters of the arguments of one call."""
_PROPOSALS = 16
_SECONDS = 3

# Every call is a process of its own, so that no call sees what another one has cached.
PROGRAM = """
import ast, importlib, json, os, signal, sys
job = json.loads({job!r})
root = os.getcwd() + os.sep

def observe(expression):
    module = importlib.import_module(job["module"])
    function = getattr(module, job["name"])
    code = ast.parse(expression, mode="eval").body
    positional = [ast.literal_eval(item) for item in code.args]
    keywords = {{item.arg: ast.literal_eval(item.value) for item in code.keywords}}
    places = set()

    def profile(frame, event, value):
        path = os.path.realpath(frame.f_code.co_filename)
        if event == "call" and path.startswith(root):
            places.add((path[len(root):], frame.f_code.co_firstlineno))

    sys.setprofile(profile)
    try:
        result = function(*positional, **keywords)
    finally:
        sys.setprofile(None)
    text = repr(result)
    if ast.literal_eval(text) != result or repr(ast.literal_eval(text)) != text:
        raise ValueError("not a literal")
    return [text, sorted(places)]

observed = {{}}
for expression in job["calls"]:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm({seconds})
        os.close(read)
        try:
            sys.stdout = sys.stderr = open(os.devnull, "w")
            data = json.dumps(observe(expression)).encode()
            with os.fdopen(write, "wb") as stream:
                stream.write(data)
        except BaseException:
            pass
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read(1 << 20)
    os.waitpid(child, 0)
    if text:
        try:
            observed[expression] = json.loads(text)
        except ValueError:
            pass
print()
print(json.dumps(observed))
"""
"""Program that prints, for each call that returns a literal, ``repr`` of it and the functions that ran."""


@dataclass(frozen=True)
class CalledFunction:
    """A function that tests call with literals."""

    module: str
    name: str
    calls: tuple[str, ...]
    """The calls of the tests: ``name('a', 2)``."""

    @property
    def dotted(self) -> str:
        """Return the import path and name."""
        return f"{self.module}.{self.name}"


def called_functions(tree: SourceTree) -> list[CalledFunction]:
    """Return the functions that tests import from the package and call with literals alone, sorted."""
    packages = {tree.dotted_name(module.path).partition(".")[0] for module in tree.modules()}
    calls: dict[tuple[str, str], dict[str, None]] = {}
    for path, source in sorted(tree.python_files.items()):
        if tree.is_test(path):
            for place, call in _literal_calls(parse_or_empty(source), packages):
                calls.setdefault(place, {})[call] = None
    return [CalledFunction(*place, tuple(texts)) for place, texts in sorted(calls.items())]


def _literal_calls(module: ast.Module, packages: set[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield module and name of each function that is called, and the call."""
    names: dict[str, tuple[str, str]] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] in packages:
            names |= {item.asname or item.name: (node.module or "", item.name) for item in node.names}
        elif isinstance(node, ast.Import):
            modules |= {
                item.asname or item.name: item.name for item in node.names if item.name.partition(".")[0] in packages
            }
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        place = names.get(called) or ((modules[owner], name) if owner in modules else None)
        if place is None or not place[1].isidentifier() or place[1][0].isupper() or place[1].startswith("_"):
            continue
        literal = _as_literal(node)
        if literal is not None:
            yield place, f"{place[1]}({literal})"


def _as_literal(call: ast.Call) -> str | None:
    """Return the arguments of a call with literals alone; None for another call, or one without arguments."""
    try:
        parts = [repr(ast.literal_eval(item)) for item in call.args]
        parts += [f"{item.arg}={ast.literal_eval(item.value)!r}" for item in call.keywords if item.arg]
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None
    text = ", ".join(parts)
    return text if parts and len(parts) == len(call.args) + len(call.keywords) and len(text) <= MAX_ARGUMENTS else None


def new_calls(function: CalledFunction, draw: random.Random) -> list[str]:
    """Return calls that no test makes: with changed, or with mixed arguments of the tests' calls."""
    in_tests = set(function.calls)
    proposals: dict[str, None] = {}
    for _ in range(_PROPOSALS * 4):
        first, second = (ast.parse(draw.choice(function.calls), mode="eval").body for _ in range(2))
        assert isinstance(first, ast.Call) and isinstance(second, ast.Call)
        arguments = [*first.args, *(keyword.value for keyword in first.keywords)]
        number = draw.randrange(len(arguments))
        others = [*second.args, *(keyword.value for keyword in second.keywords)]
        value = ast.literal_eval(arguments[number])
        other = ast.literal_eval(others[number]) if number < len(others) else value
        changed = ast.parse(repr(_mixed(value, other, draw)), mode="eval").body
        if number < len(first.args):
            first.args[number] = changed
        else:
            first.keywords[number - len(first.args)].value = changed
        text = ast.unparse(first)
        if text not in in_tests and len(text) <= MAX_ARGUMENTS + len(function.name) + 2:
            proposals[text] = None
        if len(proposals) == _PROPOSALS:
            break
    return list(proposals)


def _mixed(value: object, other: object, draw: random.Random) -> object:
    """Return a value like two others of one type, or like the first where the types differ."""
    if isinstance(value, bool) or value is None:
        return other
    if isinstance(value, int):
        return value + draw.randrange(1, 9) * draw.choice((1, 7, 13))
    if isinstance(value, float):
        return value + draw.randrange(1, 9)
    if isinstance(value, dict):
        return {**value, **other} if isinstance(other, dict) else value
    if isinstance(value, str | bytes | list | tuple) and type(other) is type(value) and len(value):
        cut, at = draw.randrange(len(value) + 1), draw.randrange(len(other) + 1)
        return draw.choice((value[:cut] + other[at:], value + other, value[cut:] + value[:cut]))  # type: ignore[operator]
    return other


def program(function: CalledFunction, calls: list[str]) -> str:
    """Return the program that observes calls."""
    job = json.dumps({"module": function.module, "name": function.name, "calls": calls})
    return PROGRAM.format(job=job, seconds=_SECONDS)
