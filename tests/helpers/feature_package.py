"""A small package with features over several files, and its tests."""

from __future__ import annotations

import textwrap
from pathlib import Path

FILES = {
    "pyproject.toml": """
        [project]
        name = "pkg"
        version = "1.0"
        license = "MIT"
        """,
    "pkg/__init__.py": '''
        """A small package."""

        from .scanner import scan
        ''',
    "pkg/scanner.py": '''
        """Cut a text into tokens. Nothing else."""

        import re


        def scan(text):
            """Return the tokens of a text."""
            tokens = []
            while text:
                token, text = _token(text)
                tokens.append(token)
            return tokens


        def _token(text):
            match = re.match(r"\\s*(\\w+)\\s*", text)
            if match is None:
                raise ValueError(f"no token in {text!r}")
            return match.group(1), text[match.end():]
        ''',
    "pkg/parser.py": '''
        """Read tokens."""

        from .scanner import scan
        from .tree import leaf


        class Parser:
            """Reads one text."""

            def __init__(self, text):
                self.tokens = scan(text)

            def parse(self):
                """Return the numbers and names."""
                if len(self.tokens) == 1 and self.tokens[0].isdigit():
                    return self._expect()
                return [leaf(token) for token in self.tokens]

            def _expect(self):
                if not self.tokens[0].isdigit():
                    raise ValueError("expected a number")
                return leaf(int(self.tokens[0]))
        ''',
    "pkg/printer.py": '''
        """Write values."""


        class Printer:
            """Writes one value after the other."""

            width = 2

            def text(self, values):
                """Return the values on one line."""
                return " ".join(str(value) for value in values)

            def indented(self, values):
                """Return the values on one line, after some spaces."""
                return " " * self.width + self.text(values)
        ''',
    "pkg/tree.py": '''
        """Nested values."""


        def leaf(value):
            """Return a leaf."""
            return (value,)


        def depth(tree):
            """Return how deep a value is."""
            if not isinstance(tree, tuple):
                return 0
            return 1 + max(map(depth, tree), default=0)
        ''',
    "tests/test_parsing.py": """
        import pytest

        from pkg.parser import Parser
        from pkg.scanner import scan


        def test_numbers():
            assert Parser("12").parse() == (12,)


        def test_names():
            assert scan("a b") == ["a", "b"]
            assert Parser("a b").parse() == [("a",), ("b",)]


        def test_rejects_a_sign():
            with pytest.raises(ValueError, match="no token in"):
                Parser("a -").parse()
        """,
    "tests/test_printing.py": """
        from pkg.printer import Printer
        from pkg.tree import leaf


        class TestPrinter:
            def test_indent(self):
                assert Printer().indented(leaf(1)) == "  1"

            def test_width(self):
                assert Printer().text([1, 2]) == "1 2"
        """,
    "tests/test_tree.py": """
        import pytest

        from pkg.tree import depth, leaf


        def test_leaves():
            assert depth(leaf(1)) == 1


        @pytest.mark.parametrize("value", [0, "a", None, 2.5, b"x", True])
        def test_leaf(value):
            assert leaf(value) == (value,)


        def test_depth():
            assert depth(leaf(leaf(1))) == 2
        """,
}


def write_package(folder: Path) -> Path:
    """Write the package to a new folder and return it."""
    for path, text in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))
    return folder
