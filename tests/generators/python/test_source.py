"""Heads of definitions as one line: comments go, and a ``#`` inside a string stays."""

from __future__ import annotations

import pytest

from etude.generators.python.source import Module, docstring, signature


@pytest.mark.parametrize(
    ("code", "head"),
    [
        ("def f(a, b=1):\n    pass\n", "def f(a, b=1)"),
        ("def f(\n    a,  # the first\n    b='#x',\n):\n    pass\n", "def f(a, b='#x')"),
        ("def f(key=' #', *, x: int = 2) -> str:  # note\n    pass\n", "def f(key=' #', *, x: int = 2) -> str"),
        ("class A(B):\n    pass\n", "class A(B)"),
    ],
)
def test_a_signature_is_the_head_without_comments(code: str, head: str) -> None:
    module = Module("m.py", code.encode())
    assert signature(module, next(iter(module.definitions()))) == head


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Lines end with '\\n', cells with '\\t'.", "Lines end with '\\n', cells with '\\t'."),
        ("First.\n\n    Lines end with '\\n'.\n    ", "First.\n\nLines end with '\\n'."),
        ("A path such as c:\\\\files.", "A path such as c:\\files."),
        ("\\\n    Joined \\\n    with \\r.", "Joined     with \\r."),
    ],
)
def test_a_docstring_with_escapes_for_line_breaks_is_as_the_source_has_it(source: str, shown: str) -> None:
    module = Module("m.py", f'def f():\n    """{source}"""\n'.encode())
    assert docstring(module, module.definitions()[0]) == shown
