"""An extension module that defines a deleted function gives it away; one that mentions other names does not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from etude.generators.validation.checks.compiled import compiled_copy
from etude.generators.validation.checks.exercise import Piece


def piece(name: str) -> Piece:
    node = ast.parse("def f(): pass").body[0]
    assert isinstance(node, ast.FunctionDef)
    return Piece("src/a.py", name, node, b"", range(1, 2))


@pytest.mark.parametrize(
    ("content", "name", "leaks"),
    [
        (b"\x7fELF\0_escape_inner\0", "_escape_inner", True),
        (b"\x7fELF\0escape_inner\0", "_escape_inner", True),
        (b"\x7fELF\0module.escape_inner\0", "Text.escape_inner", True),
        (b"\x7fELF\0escape_inner_fast\0", "_escape_inner", False),
        (b"\x7fELF\0my_escape_inner\0", "escape_inner", False),
        (b"\x7fELF\0add\0", "add", False),
        (b"\x7fELF\0__init__\0", "Text.__init__", False),
    ],
)
def test_a_compiled_copy_is_found_by_its_whole_name(tmp_path: Path, content: bytes, name: str, leaks: bool) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "_speedups.cpython-311.so").write_bytes(content)
    (tmp_path / "src" / "a.py").write_bytes(b"_escape_inner\0")
    expected = "src/_speedups.cpython-311.so holds a compiled" if leaks else ""
    assert compiled_copy(tmp_path, [piece(name)]).startswith(expected)
    assert bool(compiled_copy(tmp_path, [piece(name)])) is leaks
