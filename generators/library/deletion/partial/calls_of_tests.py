"""Calls that tests make: with which keywords they call a function, and which words they pass to a command."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....python.hidden_tests import split_test_id
from ....python.source import parse_or_empty
from ....python.source_tree import SourceTree


class CallsOfTests:
    """The calls in the test functions of a tree, each file parsed once."""

    __test__ = False

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._functions: dict[str, dict[str, ast.AST]] = {}
        self._calls: dict[str, list[ast.Call]] = {}

    def function(self, test: str) -> ast.AST | None:
        """Return the function of a test id, with its decorators; None when it cannot be found."""
        path, parts = split_test_id(test)
        functions = self._parsed(path)
        return functions.get(".".join(parts)) or functions.get(parts[-1] if parts else "")

    def calls(self, test: str) -> list[ast.Call]:
        """Return the calls in a test function."""
        key = test.partition("[")[0]
        if key not in self._calls:
            node = self.function(test)
            nodes = ast.walk(node) if node is not None else ()
            self._calls[key] = [item for item in nodes if isinstance(item, ast.Call)]
        return self._calls[key]

    def with_keyword(self, test: str, called: str, keyword: str) -> list[ast.Call]:
        """Return the calls of ``called`` (the last part of a dotted name) that pass ``keyword``."""
        return [
            call
            for call in self.calls(test)
            if called_name(call) == called and any(item.arg == keyword for item in call.keywords)
        ]

    def expressions(self, test: str) -> Iterator[ast.expr]:
        """Yield the expressions in a test function, without its docstring."""
        node = self.function(test)
        nodes = list(ast.walk(node)) if node is not None else []
        texts = {item.value for item in nodes if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)}
        for item in nodes:
            if isinstance(item, ast.expr) and item not in texts:
                yield item

    def strings(self, test: str) -> Iterator[str]:
        """Yield the text constants in a test function, without its docstring."""
        for item in self.expressions(test):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item.value

    def _parsed(self, path: str) -> dict[str, ast.AST]:
        if path not in self._functions:
            functions: dict[str, ast.AST] = {}
            for node in parse_or_empty(self._tree.python_files.get(path, b"")).body:
                members = node.body if isinstance(node, ast.ClassDef) else [node]
                prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                for item in members:
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                        functions[prefix + item.name] = item
            self._functions[path] = functions
        return self._functions[path]


def called_name(call: ast.Call) -> str:
    """Return the last name of what is called; empty for anything but a name or an attribute."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
