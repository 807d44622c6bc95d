"""Files that monitors compare an agent's changes with: pristine ones, visible tests, and contents of refused files."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.grading.pristine import MAX_FILE, MAX_REFUSED, read_pristine, refused_content
from etude.environments.sandbox import Change
from etude.models import FileChange


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src" / "core.py").write_text("x = 1\n")
    (root / "tests" / "test_core.py").write_text("def test(): pass\n")
    (root / "tests" / "data.txt").write_text("data\n")
    (root / "large.py").write_bytes(b"#" * (MAX_FILE + 1))
    (tmp_path / "secret").write_text("secret\n")
    (root / "out").symlink_to(tmp_path)
    return root


def change(path: str, text: bytes = b"new\n", kind: str = "file") -> Change:
    return Change(path=path, kind=kind, size=len(text), content=text)


def refused(*paths: str) -> list[FileChange]:
    return [FileChange(path=path, kind="refused", reason="x: y") for path in paths]


def test_changed_and_deleted_files_are_read_and_new_ones_are_not(tree: Path) -> None:
    changes = [change("src/core.py"), change("src/new.py"), change("tests/test_core.py", kind="deleted")]
    pristine = read_pristine(tree, changes, ["tests/**"])
    assert pristine.base == {"src/core.py": b"x = 1\n", "tests/test_core.py": b"def test(): pass\n"}
    assert pristine.tests == {"tests/test_core.py": b"def test(): pass\n"}


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "out/secret", "src", "", "a\0b", "src//core.py", "x" * 5000, "large.py"]
)
def test_names_that_lead_elsewhere_read_nothing(tree: Path, path: str) -> None:
    assert read_pristine(tree, [change(path)], []).base == {}


def test_contents_of_refused_files_are_returned_and_of_graded_ones_are_not() -> None:
    changes = [change("conftest.py"), change("src/core.py"), change("big.txt", b"x" * (MAX_REFUSED + 1))]
    assert refused_content(changes, refused("conftest.py", "big.txt")) == {"conftest.py": b"new\n"}


def test_settings_and_hooks_of_git_are_returned_under_their_own_names() -> None:
    names = [".git/config", ".git/hooks/post-checkout", ".git/info/attributes", ".git/objects/ab/cd", ".git/index"]
    changes = [change(name) for name in names]
    assert list(refused_content(changes, refused(".git"))) == names[:3]
    assert refused_content(changes, []) == {}
