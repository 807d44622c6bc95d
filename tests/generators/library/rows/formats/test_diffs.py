"""The way back from a diff, checked against git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from etude.generators.library.rows.formats.diffs import is_diff, is_test, reverse, select


def git(folder: Path, *command: str, text: str = "") -> str:
    done = subprocess.run(["git", *command], cwd=folder, input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def patch(tmp_path: Path) -> str:
    """A diff with changed, added, deleted, renamed and executable files, some without a last line end."""
    git(tmp_path, "init", "-q")
    files = {"a.py": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "gone.py": "x\ny", "old/name.py": "a\n" * 20, "run.sh": "echo\n"}
    for name, content in {**files, "end.py": "one\ntwo"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "before")
    (tmp_path / "a.py").write_text("1\ntwo\n3\n4\n5\n6\n7\n8\n8.5\n9\n")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("new")
    (tmp_path / "end.py").write_text("one\nzwei\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "old" / "name.py").rename(tmp_path / "renamed.py")
    (tmp_path / "renamed.py").write_text("a\n" * 19 + "b\n")
    git(tmp_path, "add", "-A")
    return git(tmp_path, "diff", "--cached", "--no-ext-diff", "-M", "HEAD")


def test_a_diff_and_its_reverse_leave_the_tree_as_it_was(tmp_path: Path, patch: str) -> None:
    git(tmp_path, "apply", "--index", "-", text=reverse(patch))
    assert git(tmp_path, "diff", "--cached", "HEAD") == ""


def test_the_reverse_is_what_git_writes(tmp_path: Path, patch: str) -> None:
    prefixes = ("--src-prefix=b/", "--dst-prefix=a/")  # -R swaps them
    assert reverse(patch) == git(tmp_path, "diff", "--cached", "--no-ext-diff", "-M", "-R", *prefixes, "HEAD")
    assert reverse(reverse(patch)) == patch


def test_parts_are_selected_by_their_path(patch: str) -> None:
    assert select(patch, lambda path: path == "new.py").startswith("diff --git a/new.py b/new.py\n")
    assert select(patch, lambda path: True) == patch


@pytest.mark.parametrize("text", ["", "fix it", "--- a/x\n+++ b/x\n", "diff --git a/x b/x\nindex 1..2\n"])
def test_other_text_is_not_a_diff(text: str) -> None:
    assert not is_diff(text)


def test_tests_are_recognised_by_their_path() -> None:
    assert all(map(is_test, ("tests/data/x.json", "a/test_b.py", "lib/conftest.py", "Tests/images/a.png", "x/test/y")))
    assert not any(map(is_test, ("src/contest.py", "latest/x.py", "attest_b.py", "testimony/a.py")))
