"""The leak check: which files may quote the solution, and which words give it away."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.exercise import Piece
from etude.generators.validation.checks.leaks import compiled_copy, is_prose, task_needles


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "index.rst",
        "setup.cfg",
        "CHANGELOG",
        "AUTHORS",
        "Changes",
        "messages.pot",
        "de.po",
        "de.mo",
        "tally.1",
        "index.html",
    ],
)
def test_documents_and_translations_are_prose(name: str) -> None:
    assert is_prose(name)


@pytest.mark.parametrize(
    "name", ["libtally.so.1", "module.py", "data.bin", "CHANGELOG.orig", "README.pyc", "cache", ".readme"]
)
def test_a_file_is_not_prose_when_it_may_hold_code(name: str) -> None:
    assert not is_prose(name)


def test_a_name_is_not_secret_when_a_file_of_the_workspace_has_it(tmp_path: Path) -> None:
    package = tmp_path / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "_text_wrapping.py").write_text("class Wrapper:\n    pass\n")
    (package / "core.py").write_text("def wrap(text):\n    raise NotImplementedError\n")
    solved = b"def wrap(text):\n    from ._text_wrapping import Wrapper\n\n    return Wrapper(secret_option=text)\n"
    node = ast.parse(solved).body[0]
    assert isinstance(node, ast.FunctionDef)
    exercise = SimpleNamespace(
        secret_pieces=[Piece("src/pkg/core.py", "wrap", node, solved, range(1, 5))], after={"src/pkg/core.py": solved}
    )
    tree = SourceTree(tmp_path, ("src/pkg",), ("src",), frozenset())
    task = SimpleNamespace(problem_statement="Implement wrap", interface=[])
    secrets = {b" ".join(needle.words) for needle in task_needles(task, tmp_path, exercise, tree).items}  # type: ignore[arg-type]
    assert b"secret_option" in secrets
    assert b"_text_wrapping" not in secrets


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
