"""Which files of a workspace may say in passing what the solution says too."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.leaks import is_prose, task_needles
from etude.generators.validation.checks.removed import Piece


@pytest.mark.parametrize("name", ["README.md", "index.rst", "setup.cfg", "CHANGELOG", "AUTHORS", "Changes"])
def test_documents_with_and_without_a_suffix_are_prose(name: str) -> None:
    assert is_prose(name)


@pytest.mark.parametrize("name", ["module.py", "data.bin", "CHANGELOG.orig", "README.pyc", "cache", ".readme"])
def test_whatever_may_hold_code_is_not(name: str) -> None:
    assert not is_prose(name)


def test_the_name_of_a_file_that_is_there_is_no_secret(tmp_path: Path) -> None:
    package = tmp_path / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "_text_wrapping.py").write_text("class Wrapper:\n    pass\n")
    (package / "core.py").write_text("def wrap(text):\n    raise NotImplementedError\n")
    solved = b"def wrap(text):\n    from ._text_wrapping import Wrapper\n\n    return Wrapper(secret_of_mine=text)\n"
    node = ast.parse(solved).body[0]
    assert isinstance(node, ast.FunctionDef)
    exercise = SimpleNamespace(
        pieces=[Piece("src/pkg/core.py", "wrap", node, solved, range(1, 5))], after={"src/pkg/core.py": solved}
    )
    tree = SourceTree(tmp_path, ("src/pkg",), ("src",), frozenset())
    task = SimpleNamespace(problem_statement="Implement wrap", interface=[])
    found = {b" ".join(needle.words) for needle in task_needles(task, tmp_path, exercise, tree).found}  # type: ignore[arg-type]
    assert b"secret_of_mine" in found
    assert b"_text_wrapping" not in found
