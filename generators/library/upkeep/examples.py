"""The examples (``>>>``) in the docstrings of a module, and where their expected output is in the source."""

from __future__ import annotations

import ast
import builtins
import doctest
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...python.source import Edit, parse_or_empty

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Examples:
    """The examples of one docstring."""

    name: str  # ``name`` or ``Class.name``
    node: Documented  # the definition
    text: str  # the docstring as the source has it
    items: tuple[doctest.Example, ...]  # the examples in their order

    @property
    def checked(self) -> int:
        """Return how many examples show an output and are run."""
        return sum(bool(item.want) and not item.options.get(doctest.SKIP) for item in self.items)


def module_examples(source: bytes) -> list[Examples]:
    """Return the examples of functions, classes and methods with at least one output to check, in file order.

    Examples that use a name which neither the module nor an earlier example defines are left out: ``doctest`` fails.
    """
    entries = []
    tree = parse_or_empty(source)
    defined = _bound_names(tree)
    for name, node in _definitions(tree.body, ""):
        text = ast.get_docstring(node, clean=False) or ""
        if ">>>" not in text:
            continue
        try:
            items = tuple(doctest.DocTestParser().get_examples(text))
        except ValueError:  # inconsistent indentation, for one
            continue
        examples = Examples(name, node, text, items)
        if examples.checked and ("*" in defined or not _unknown_names(items, defined)):
            entries.append(examples)
    return entries


def _bound_names(tree: ast.AST) -> set[str]:
    """Return the names that code binds anywhere; ``*`` for those of an import of everything."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def _unknown_names(items: Iterable[doctest.Example], defined: set[str]) -> set[str]:
    """Return the names that examples use and that nothing before them defines."""
    unknown: set[str] = set()
    bound = {*defined, *dir(builtins), "__name__", "__file__", "__doc__", "_"}
    for item in items:
        tree = parse_or_empty(item.source.encode())
        bound |= _bound_names(tree)
        if item.exc_msg is None and not item.options.get(doctest.SKIP):
            unknown |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - bound
    return unknown


def _definitions(nodes: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Documented]]:
    for node in nodes:
        if isinstance(node, Documented):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{prefix}{node.name}.")


def stale_outputs(source: bytes, examples: Examples) -> list[Edit]:
    """Return an edit for each output that is one plain value: it becomes the output of another value."""
    docstring = examples.node.body[0]
    lines = source.split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    edits: list[Edit] = []
    for example in examples.items:
        if example.options.get(doctest.SKIP):
            continue  # no run would show it
        want = example.want.strip()
        stale = other_output(want) if want and "\n" not in want and example.exc_msg is None else ""
        number = docstring.lineno - 1 + example.lineno + example.source.count("\n")
        if not stale or number >= len(lines) or lines[number].strip() != want.encode():
            continue  # a docstring with escapes or joined literals has other lines than its source
        start = starts[number] + lines[number].index(want.encode())
        edits.append(((start, start + len(want.encode())), stale.encode()))
    return edits


def other_output(want: str) -> str:
    """Return the output of a value near to that of ``want``; empty when ``want`` is not the output of a plain value."""
    try:
        value = ast.literal_eval(want)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    other = _other(value)
    return repr(other) if repr(value) == want and other != value else ""


def _other(value: Any) -> Any:
    """Return another value of the same type; the same one where none is near."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str | bytes):
        return value[:-1] if len(value) > 1 else value
    if isinstance(value, list | tuple) and len(value) > 1:
        return type(value)([*value[:-2], value[-1], value[-2]]) if value[-1] != value[-2] else value[:-1]
    if isinstance(value, dict) and len(value) > 1:
        return dict(list(value.items())[:-1])
    return value
