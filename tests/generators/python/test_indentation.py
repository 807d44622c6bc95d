"""Lines of a block at another indentation: tabs, blanks, both, and form feeds."""

from __future__ import annotations

import ast

import pytest

from etude.generators.python.indentation import moved_lines
from etude.generators.python.source import SyntaxSpans, compile_error, indentation


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"if x:\n\tpass\n", b"\t"),
        (b"if x:\n \t pass\n", b" \t "),
        (b"if x:\n\x0c  pass\n", b"  "),
        (b"if x:\n \x0c\tpass", b"\t"),
        (b"if x: pass\n", b""),
        (b"if x:\r\n\tpass\r\n", b"\t"),
        (b"if x:\r\tpass\r", b"\t"),
    ],
)
def test_indentation_is_the_white_space_that_python_counts(source, expected):
    node = ast.parse(source).body[0].body[0]
    spans = SyntaxSpans(source)
    assert spans.indentation(node) == indentation(source, spans.span(node)[0]) == expected
    assert spans.text(node) == b"pass"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\t", b""),
        (b"\t\t", b"\t"),
        (b"\t    ", b"\t"),
        (b" " * 12, b"\t"),
        (b"    ", b"\t\t"),
        (b"", b"\t"),
        (b" ", b" "),
    ],
)
@pytest.mark.parametrize("inner", [b"\t", b"    ", b"\t  "])
def test_a_block_means_the_same_at_another_indentation(before, after, inner):
    block = [b"for a in b:", inner + b"c(a,", inner + b"d)", b"# of e", b"", b"e()"]
    lines = b"".join((before + line if line else b"") + b"\n" for line in block)
    moved = moved_lines(lines, before, after)
    head = b"if x:\n" if after else b""
    assert moved == b"".join((after + line if line else b"") + b"\n" for line in block)
    assert not compile_error("", head + moved)


def test_lines_with_free_indentation_stay_lines_of_the_block():
    lines = b"\t\tcall(a,\n    b)\n# of c\n\x0c\t\tc()\n"
    assert moved_lines(lines, b"\t\t", b"\t") == b"\tcall(a,\n   b)\n# of c\n\x0c\tc()\n"
    assert moved_lines(b"\tcall(a,\nb)\n", b"\t", b"\t\t") == b"\t\tcall(a,\n\tb)\n"
