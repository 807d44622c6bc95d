"""Code exchange: gives the functions of a package that is imported other code, without importing anything again.

The text of this file runs in a sandbox, on Python 3.8 and later, ahead of the files that use it: ``trials_plugin`` and
``session_runner``. A change gives a file other contents. These are compiled, and each function object that was made
from a changed function gets the new code. A change outside the bodies of functions cannot be made this way.
"""

from __future__ import annotations
import __future__

import ast
import gc
import os
import types
from typing import Any

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
OPTIMIZED = 0x1  # the flag of function code; a module and a class body lack it
FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class NotSwappable(Exception):
    """Raised when the change of a file is not a change of function bodies alone."""


def nested(code: types.CodeType) -> list[types.CodeType]:
    """Return the code objects directly within ``code``."""
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def skeleton(code: types.CodeType) -> tuple[Any, ...]:
    """Return the code of a module or a class body without that of its functions."""
    constants = tuple(
        item.co_name if isinstance(item, types.CodeType) else (type(item).__name__, repr(item))
        for item in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants


def changed_functions(old: types.CodeType, new: types.CodeType) -> list[tuple[types.CodeType, types.CodeType]]:
    """Return the functions in a module or class body whose code differs. Raises NotSwappable."""
    if skeleton(old) != skeleton(new):
        raise NotSwappable(f"{old.co_name} itself changes")
    pairs: list[tuple[types.CodeType, types.CodeType]] = []
    for before, after in zip(nested(old), nested(new)):  # noqa: B905  the skeletons agree; Python 3.8 has no strict
        if not before.co_flags & OPTIMIZED:
            pairs.extend(changed_functions(before, after))
        elif before != after:
            if before.co_name in COMPREHENSIONS or before.co_name == "<lambda>":
                raise NotSwappable(f"{before.co_name} at the top changes")
            pairs.append((before, after))
    return pairs


def top_level_blocks(source: bytes) -> list[tuple[int, int, int, int]]:
    """Return first and last line and the bytes' range of each function and class at the top of a file.

    A file that names its encoding has no block, since a part of it cannot be compiled alone.
    """
    lines = source.splitlines(keepends=True)
    if source.startswith(b"\xef\xbb\xbf") or b"coding" in b"".join(lines[:2]) or b"\r" in source or b"\f" in source:
        return []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    blocks = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            last = node.end_lineno or first
            blocks.append((first, last, starts[first - 1], starts[last]))
    return blocks


class Functions:
    """The function objects of the workspace's modules, by the code that they were made from."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.by_code: dict[tuple[str, int, str], list[types.FunctionType]] = {}
        self.texts: dict[str, bytes] = {}  # contents of prepared files
        self.blocks: dict[str, list[tuple[int, int, int, int]]] = {}  # see top_level_blocks
        self.flags: dict[str, int] = {}  # the features of __future__ that a file asks for
        self.exchanged: set[tuple[str, int, str]] = set()  # keys of the functions that got other code
        for item in gc.get_objects():
            if type(item) is types.FunctionType and item.__code__.co_filename.startswith(root + os.sep):
                self.by_code.setdefault(self.key(item.__code__), []).append(item)
        self.files = {key[0] for key in self.by_code}

    @staticmethod
    def key(code: types.CodeType, path: str = "") -> tuple[str, int, str]:
        """Return what identifies a function of the workspace."""
        return path or code.co_filename, code.co_firstlineno, code.co_name

    def prepare(self, relative: str) -> None:
        """Read a file and find its top-level functions and classes, so that no child has to."""
        path = os.path.join(self.root, relative)
        if path in self.files and path not in self.texts:
            with open(path, "rb") as file:  # noqa: PTH123
                self.texts[path] = file.read()
            self.blocks[path] = top_level_blocks(self.texts[path])
            self.flags[path] = compile(self.texts[path], path, "exec", dont_inherit=True).co_flags & FUTURE

    def exchange(self, relative: str, start: int, stop: int, text: bytes) -> None:
        """Give every function of the file the code that it has with ``text`` in place of these bytes.

        Raises NotSwappable.
        """
        path = os.path.join(self.root, relative)
        if path not in self.texts:
            raise NotSwappable(f"{relative} is not imported before the tests run")
        source = self.texts[path]
        first, last = 1 + source.count(b"\n", 0, start), 1 + source.count(b"\n", 0, max(start, stop - 1))
        block = next((item for item in self.blocks[path] if item[0] <= first and last <= item[1]), None)
        lines, upper, lower = 0, 0, len(source)
        if block is not None:  # the rest of the file compiles as before
            lines, upper, lower = block[0] - 1, block[2], block[3]
        parts = (source[upper:lower], source[upper:start] + text + source[stop:lower])
        try:
            before, after = (
                compile(b"\n" * lines + part, path, "exec", flags=self.flags[path], dont_inherit=True) for part in parts
            )
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NotSwappable(type(error).__name__) from None
        for old, new in changed_functions(before, after):
            self._exchange_one(path, old, new, required=True)

    def _exchange_one(self, path: str, before: types.CodeType, after: types.CodeType, *, required: bool) -> None:
        objects = self.by_code.get(self.key(before, path), [])
        self.exchanged.add(self.key(before, path))
        if required and not objects:
            raise NotSwappable(f"no function object has the code of {before.co_name}")
        inner, others = nested(before), nested(after)
        if len(inner) == len(others):
            for first, second in zip(inner, others):  # noqa: B905  they have the same length
                if first != second:
                    self._exchange_one(path, first, second, required=False)
        elif any(self.by_code.get(self.key(code, path)) for code in inner):
            raise NotSwappable(f"a function made by {before.co_name} is in use")
        for item in objects:
            try:
                item.__code__ = after
            except ValueError:
                raise NotSwappable(f"{before.co_name} closes over other names") from None
