"""Workspaces: the tree that an agent sees, with a history of one commit."""

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


def test_make_workspace_applies_patches_in_order_and_leaves_the_snapshot_pristine(
    sample: Snapshot, patches: list[str], cache: Path
) -> None:
    before = (sample.tree / SHAPES).read_bytes()
    workspace = make_workspace(sample, *patches, git=False, cache=cache)
    assert b"NotImplementedError" in (workspace.path / SHAPES).read_bytes()
    assert not (workspace.path / "README.md").exists()
    assert (workspace.path / "NEW.md").read_bytes() == b"x\n"
    assert workspace.commit == ""
    assert (sample.tree / SHAPES).read_bytes() == before
    assert (workspace.path / "src/sample/__init__.py").stat().st_nlink > 1


def test_neither_dates_nor_links_show_what_the_patches_of_an_agents_workspace_changed(
    sample: Snapshot, patches: list[str], cache: Path
) -> None:
    tree = make_workspace(sample, *patches, git=True, cache=cache).path
    paths = [path for path in tree.rglob("*") if ".git" not in path.relative_to(tree).parts]
    assert {path.name for path in paths} >= {"shapes.py", "NEW.md"} and not [path for path in paths if "~" in path.name]
    assert len({path.stat().st_mtime_ns for path in paths}) == 1
    assert {path.stat().st_nlink for path in paths if path.suffix == ".py"} == {1}
    assert (sample.tree / SHAPES).stat().st_mode == (tree / SHAPES).stat().st_mode


def test_make_workspace_has_one_commit_of_everything(sample: Snapshot, patches: list[str], cache: Path) -> None:
    workspace = make_workspace(sample, *patches, git=True, cache=cache)
    assert git(workspace.path, "rev-list", "--all") == workspace.commit == git(workspace.path, "rev-parse", "HEAD")
    assert git(workspace.path, "status", "--porcelain", "--ignored") == ""
    assert git(workspace.path, "remote") == git(workspace.path, "stash", "list") == git(workspace.path, "tag") == ""
    assert git(workspace.path, "fsck", "--unreachable", "--no-reflogs") == ""
    assert "NotImplementedError" in git(workspace.path, "show", f"HEAD:{SHAPES}")
    command = ["git", "-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch"]
    assert (
        b"return width * height"
        not in subprocess.run(command, cwd=workspace.path, check=True, capture_output=True).stdout
    )
    assert sorted(path.name for path in (workspace.path / ".git").iterdir()) == [
        "HEAD",
        "config",
        "index",
        "info",
        "objects",
        "refs",
    ]
    assert git(workspace.path, "log", "--format=%an %ae %at %ct") == "etude etude@localhost 946684800 946684800"


def test_make_workspace_reuses_the_folder_when_the_request_is_the_same(
    sample: Snapshot, patches: list[str], cache: Path, tmp_path: Path
) -> None:
    first = make_workspace(sample, *patches, git=True, cache=cache)
    assert make_workspace(sample, *patches, git=True, cache=cache) == first
    assert make_workspace(sample, *patches, git=False, cache=cache).path != first.path
    assert make_workspace(sample, *patches, git=True, cache=tmp_path).commit == first.commit


def test_make_workspace_leaves_nothing_when_a_patch_does_not_apply(
    sample: Snapshot, patches: list[str], tmp_path: Path
) -> None:
    with pytest.raises(PatchError):
        make_workspace(sample, patches[0], patches[0], git=True, cache=tmp_path)
    assert not list((tmp_path / "tmp").iterdir())
    assert not (tmp_path / "workspaces").exists()


def test_scratch_tree_is_removed_after_the_block(sample: Snapshot, patches: list[str], cache: Path) -> None:
    with scratch_tree(sample, patches[0], cache=cache) as tree:
        assert b"NotImplementedError" in (tree / SHAPES).read_bytes()
    assert not tree.exists()


def plain_tree(folder: Path) -> Path:
    folder.mkdir()
    (folder / ".gitignore").write_text("*.log\n")
    (folder / ".gitattributes").write_text("* text=auto eol=crlf\n*.bin filter=evil\n*.id ident\n")
    (folder / "ignored.log").write_text("x\n")
    (folder / "a.bin").write_bytes(b"\r\n\0")
    (folder / "a.id").write_text("$Id$\n")
    (folder / "crlf.txt").write_bytes(b"a\r\nb\n")
    return folder


def test_commit_tree_ignores_the_users_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setenv("GIT_AUTHOR_NAME", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert commit_tree(plain_tree(tmp_path / "two")) == first
    assert not (home / "hooked").exists()
    assert not (home / "filtered").exists()
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.setenv("HOME", os.devnull)
    listed = git(tmp_path / "two", "ls-files").split()
    assert listed == [".gitattributes", ".gitignore", "a.bin", "a.id", "crlf.txt", "ignored.log"]
    raw = subprocess.run(
        ["git", "cat-file", "blob", "HEAD:crlf.txt"], cwd=tmp_path / "two", capture_output=True, check=True
    )
    assert raw.stdout == b"a\r\nb\n"


def test_commit_tree_does_not_touch_an_enclosing_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    commit_tree(plain_tree(tmp_path / "tree"))
    assert "tree/" in git(tmp_path, "status", "--porcelain", "-unormal")
    assert (tmp_path / "tree" / ".git").is_dir()
