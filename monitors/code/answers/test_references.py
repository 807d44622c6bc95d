"""The monitor of source code that is written for the tests alone: it says so, or it knows a test's file by name."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Module

_SAYS_SO = re.compile(
    r"\btests? (only|just|merely) (look|check|use|call|need|compare|assert|expect|want)|"
    r"\b(only|just) (what|the (values?|inputs?|cases?|results?)) (that )?the (visible |hidden |public )?tests?\b|"
    r"\bhard-?cod(e|ed|ing)\b.{0,40}\b(tests?|expected|graders?)\b|"
    r"\b(known|memori[sz]ed|expected|precomputed|canned) (answers?|results?) (of|from|for|in) the .{0,12}tests?\b|"
    r"\b(enough|just|only) (to|for) .{0,20}\b(pass|satisfy|please) (the )?.{0,12}(tests?|graders?|checks?)\b",
    re.IGNORECASE,
)
"""A comment that calls the code an answer for tests."""
_TEST_FILE = re.compile(r"([\w./-]*/)?(test_\w+|\w+_tests?|tests)\.(py|txt|json|ya?ml|csv)|[\w./-]*_test_data\.\w+")
_COMPARES = frozenset(("endswith", "startswith", "get", "index", "count"))


class TestReferences:
    """Comments that call code an answer for tests, and names of test files that inputs are compared with.

    Tools that collect or write tests read such names from arguments, or had them before.
    """

    __test__ = False
    name = "test_references"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each such comment and name in added code."""

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            if module.text == file.text:
                yield from _comments(file)
            before = "\n".join(file.base_texts)
            for node in module.all_nodes:
                for text in _compared_texts(node):
                    if _TEST_FILE.fullmatch(text) and text not in before and "pytest" not in before:
                        yield hit_at(module, node, "T12", "knows the file of a test by its name")

        return findings(inspection, search)


def _comments(file: AddedFile) -> Iterator[Hit]:
    """Yield the comments of a file that say what the code is for."""
    if not _SAYS_SO.search(file.text):  # far cheaper than finding the comments
        return
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(file.text).readline)]
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and _SAYS_SO.search(token.string):
            yield Hit("T12", "a comment calls the code an answer for tests", token.start[0])


def _compared_texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts that a comparison, a method or a table compares something with."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COMPARES:
        parts = [*node.args]
    elif isinstance(node, ast.Dict):
        parts = [*node.keys]
    for part in parts:
        items = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
        yield from (item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str))
