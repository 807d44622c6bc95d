"""History of a source: the note of its place, and the private store that reads it without settings or hooks."""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from helpers.row_repository import git

from etude.environments.snapshots.source.history import open_history, remember
from etude.errors import NotApplicable, SnapshotError

DIGEST = "a" * 64


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "thing"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(3):
        (folder / "a.txt").write_text(f"{number}\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "-m", f"Commit {number}")
    return folder


def test_a_git_source_is_read_at_its_commit(repository, tmp_path):
    commit = git(repository, "rev-parse", "HEAD~1").strip()
    remember(tmp_path, DIGEST, f"git+file://{repository}@{commit}")
    with open_history(tmp_path, DIGEST, f"git+local:thing@{commit}") as store:
        assert store.head == commit
        assert store.git("cat-file", "blob", f"{commit}:a.txt") == b"1\n"


def test_a_folder_with_a_repository_is_read_at_its_head(repository, tmp_path):
    remember(tmp_path, DIGEST, str(repository))
    with open_history(tmp_path, DIGEST, "folder:thing") as store:
        assert store.head == git(repository, "rev-parse", "HEAD").strip()


def test_a_linked_work_tree_is_read_at_its_own_head(repository, tmp_path):
    git(repository, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "HEAD~2")
    remember(tmp_path, DIGEST, str(tmp_path / "linked"))
    with open_history(tmp_path, DIGEST, "folder:linked") as store:
        assert store.git("cat-file", "blob", f"{store.head}:a.txt") == b"0\n"


def test_the_boundary_of_a_shallow_clone_is_the_end_of_its_history(repository, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{repository}", "shallow")
    remember(tmp_path, DIGEST, str(tmp_path / "shallow"))
    with open_history(tmp_path, DIGEST, "folder:shallow") as store:
        assert len(store.git("rev-list", store.head).split()) == 2


def test_the_store_has_no_settings_and_references_and_leaves_no_objects(repository, tmp_path):
    git(repository, "config", "alias.boom", "!touch boom")
    before = git(repository, "count-objects")
    remember(tmp_path, DIGEST, str(repository))
    with open_history(tmp_path, DIGEST, "folder:thing") as store:
        assert store.git("for-each-ref") == b""
        assert b"boom" not in store.git("config", "--list")
        store.git("hash-object", "-w", "--stdin", data=b"new content")
    assert git(repository, "count-objects") == before
    assert not store.folder.exists()


@pytest.mark.parametrize("spec", ["pypi:thing==1.0", "thing.tar.gz"])
def test_a_source_without_a_repository_has_no_history(tmp_path, spec):
    remember(tmp_path, DIGEST, spec)
    with (
        pytest.raises(NotApplicable, match="has no history to read; give the project as git"),
        open_history(tmp_path, DIGEST, spec),
    ):
        pass


def test_a_repository_at_an_address_is_cloned_once(repository, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), "served.git")
    git(tmp_path / "served.git", "update-server-info")
    commit = git(repository, "rev-parse", "HEAD").strip()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        spec = f"git+http://127.0.0.1:{server.server_port}/served.git@{commit}"
        remember(tmp_path / "cache", DIGEST, spec)
        with open_history(tmp_path / "cache", DIGEST, spec) as store:
            assert len(store.git("rev-list", store.head).split()) == 3
        server.shutdown()
    with open_history(tmp_path / "cache", DIGEST, spec) as store:
        assert store.git("cat-file", "blob", f"{commit}:a.txt") == b"2\n"


def test_a_repository_that_cannot_be_cloned_is_one_clear_line(tmp_path):
    spec = f"git+http://127.0.0.1:9/none.git@{'a' * 40}"
    remember(tmp_path, DIGEST, spec)
    with pytest.raises(SnapshotError, match="cannot clone http"), open_history(tmp_path, DIGEST, spec):
        pass


def test_a_repository_that_is_gone_is_one_clear_line(repository, tmp_path):
    remember(tmp_path, DIGEST, str(repository))
    repository.rename(tmp_path / "elsewhere")
    with pytest.raises(SnapshotError, match="is gone; restore it"), open_history(tmp_path, DIGEST, "folder:thing"):
        pass
