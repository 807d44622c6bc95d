"""Workspaces: the tree an agent sees, with one commit of history and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from etude.environments.snapshots import Snapshot, make_patch, make_workspace, scratch_tree
from etude.environments.snapshots.store.workspace import commit_tree
from etude.errors import PatchError

SHAPES = "src/sample/shapes.py"


def git(tree: Path, *args: str) -> str:
    command = ["git", "-c", "safe.directory=*", *args]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def patches(sample: Snapshot) -> list[str]:
    old = (sample.tree / SHAPES).read_bytes()
    new = old.replace(b"return width * height", b"raise NotImplementedError")
    first = make_patch({SHAPES: old}, {SHAPES: new})
    return [
        first,
        make_patch({"README.md": (sample.tree / "README.md").read_bytes()}, {"README.md": None, "NEW.md": b"x\n"}),
    ]


def test_patches_apply_in_order_and_the_snapshot_stays_pristine(
    sample: Snapshot, patches: list[str], cache: Path
) -> None:
    before = (sample.tree / SHAPES).read_bytes()
    made = make_workspace(sample, *patches, git=False, cache=cache)
    assert b"NotImplementedError" in (made.path / SHAPES).read_bytes()
    assert not (made.path / "README.md").exists()
    assert (made.path / "NEW.md").read_bytes() == b"x\n"
    assert made.commit == ""
    assert (sample.tree / SHAPES).read_bytes() == before
    assert (made.path / "src/sample/__init__.py").stat().st_nlink > 1


def test_one_commit_of_everything_and_nothing_else(sample: Snapshot, patches: list[str], cache: Path) -> None:
    made = make_workspace(sample, *patches, git=True, cache=cache)
    assert git(made.path, "rev-list", "--all") == made.commit == git(made.path, "rev-parse", "HEAD")
    assert git(made.path, "status", "--porcelain", "--ignored") == ""
    assert git(made.path, "remote") == git(made.path, "stash", "list") == git(made.path, "tag") == ""
    assert git(made.path, "fsck", "--unreachable", "--no-reflogs") == ""
    assert "NotImplementedError" in git(made.path, "show", f"HEAD:{SHAPES}")
    command = ["git", "-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch"]
    assert (
        b"return width * height" not in subprocess.run(command, cwd=made.path, check=True, capture_output=True).stdout
    )
    assert sorted(path.name for path in (made.path / ".git").iterdir()) == [
        "HEAD",
        "config",
        "index",
        "info",
        "objects",
        "refs",
    ]
    assert git(made.path, "log", "--format=%an %ae %at %ct") == "etude etude@localhost 946684800 946684800"


def test_the_same_request_is_the_same_folder(sample: Snapshot, patches: list[str], cache: Path, tmp_path: Path) -> None:
    first = make_workspace(sample, *patches, git=True, cache=cache)
    assert make_workspace(sample, *patches, git=True, cache=cache) == first
    assert make_workspace(sample, *patches, git=False, cache=cache).path != first.path
    assert make_workspace(sample, *patches, git=True, cache=tmp_path).commit == first.commit


def test_a_patch_that_does_not_apply_leaves_no_workspace(sample: Snapshot, patches: list[str], tmp_path: Path) -> None:
    with pytest.raises(PatchError):
        make_workspace(sample, patches[0], patches[0], git=True, cache=tmp_path)
    assert not list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / "workspaces").exists()


def test_a_scratch_tree_is_gone_afterwards(sample: Snapshot, patches: list[str], cache: Path) -> None:
    with scratch_tree(sample, patches[0], cache=cache) as tree:
        assert b"NotImplementedError" in (tree / SHAPES).read_bytes()
    assert not tree.exists()


def plain_tree(folder: Path) -> Path:
    folder.mkdir()
    (folder / ".gitignore").write_text("*.log\n")
    (folder / ".gitattributes").write_text("* text=auto eol=crlf\n*.bin filter=evil\n*.id ident\n")
    (folder / "kept.log").write_text("x\n")
    (folder / "a.bin").write_bytes(b"\r\n\0")
    (folder / "a.id").write_text("$Id$\n")
    (folder / "crlf.txt").write_bytes(b"a\r\nb\n")
    return folder


def test_the_persons_own_git_configuration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = commit_tree(plain_tree(tmp_path / "one"))
    home = tmp_path / "home"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text(f"#!/bin/sh\ntouch {home}/hooked\n")
    (hooks / "pre-commit").chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n\tautocrlf = true\n\texcludesFile = {home}/ignore\n[user]\n\tname = me\n"
        f'[commit]\n\tgpgSign = true\n[filter "evil"]\n\tclean = touch {home}/filtered\n'
        f"[init]\n\ttemplateDir = {hooks}\n"
    )
    (home / "ignore").write_text("*.bin\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert commit_tree(plain_tree(tmp_path / "two")) == first
    assert not (home / "hooked").exists()
    assert not (home / "filtered").exists()
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.setenv("HOME", os.devnull)
    listed = git(tmp_path / "two", "ls-files").split()
    assert listed == [".gitattributes", ".gitignore", "a.bin", "a.id", "crlf.txt", "kept.log"]
    raw = subprocess.run(
        ["git", "cat-file", "blob", "HEAD:crlf.txt"], cwd=tmp_path / "two", capture_output=True, check=True
    )
    assert raw.stdout == b"a\r\nb\n"


def test_an_enclosing_repository_is_not_touched(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    commit_tree(plain_tree(tmp_path / "tree"))
    assert "tree/" in git(tmp_path, "status", "--porcelain", "-unormal")
    assert (tmp_path / "tree" / ".git").is_dir()
