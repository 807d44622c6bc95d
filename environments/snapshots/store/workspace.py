"""Workspaces: the tree that a sandbox shows, made of the pristine tree and patches, with a history of one commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....errors import SnapshotError
from ..source.repositories import run_git
from . import trees
from .cache import cache_folder, file_lock, publish_folder, temporary_folder
from .patches import apply_patch

if TYPE_CHECKING:
    from ..snapshot import Snapshot

_VERSION = "2"
COMMIT_DATE = "2000-01-01T00:00:00Z"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "etude",
    "GIT_AUTHOR_EMAIL": "etude@localhost",
    "GIT_COMMITTER_NAME": "etude",
    "GIT_COMMITTER_EMAIL": "etude@localhost",
    "GIT_AUTHOR_DATE": COMMIT_DATE,
    "GIT_COMMITTER_DATE": COMMIT_DATE,
}
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[user]
\tname = agent
\temail = agent@localhost
"""


@dataclass(frozen=True)
class Workspace:
    """A read-only lower tree at ``path`` in the cache; ``commit`` is its only commit, empty without git."""

    path: Path
    commit: str


def make_workspace(snapshot: Snapshot, *patches: str, git: bool, cache: Path | None = None) -> Workspace:
    """Return the snapshot's tree with ``patches`` applied in order, as a folder of the cache that is made once.

    Unchanged files are hard links to the snapshot's and must not be written; with ``git``, for an agent's eyes, Python
    files are copies, and nothing shows which files the patches changed. Raises PatchError, SnapshotError.
    """
    home = cache_folder(cache)
    key = hashlib.sha256(json.dumps([_VERSION, snapshot.digest, patches, git]).encode()).hexdigest()
    target = home / "workspaces" / key

    def complete() -> bool:
        return (target / "tree").is_dir() and (target / "commit").is_file()

    if not complete():
        with file_lock(home, f"workspace-{key[:32]}"):
            if not complete():
                with temporary_folder(home) as staging:
                    _build(snapshot, patches, git, staging / "workspace")
                    publish_folder(staging / "workspace", target)
    return Workspace(target / "tree", (target / "commit").read_text("ascii"))


@contextmanager
def scratch_tree(snapshot: Snapshot, *patches: str, cache: Path | None = None) -> Iterator[Path]:
    """Make the same tree, without git, for a ``with`` block: for candidates that may be discarded."""
    with temporary_folder(cache_folder(cache)) as staging:
        _build(snapshot, patches, False, staging / "workspace")
        yield staging / "workspace" / "tree"


def _build(snapshot: Snapshot, patches: tuple[str, ...], git: bool, folder: Path) -> None:
    tree = folder / "tree"
    folder.mkdir()
    trees.link_tree(snapshot.tree, tree)
    for patch in patches:
        apply_patch(tree, patch)
    trees.clean(tree, frozenset(snapshot.recipe.packages))
    trees.normalise(tree)
    if git:
        trees.hide_changes(tree)
    commit = commit_tree(tree) if git else ""
    (folder / "commit").write_text(commit, "ascii")
    trees.give_to_sandbox(tree)


def commit_tree(tree: Path) -> str:
    """Make ``tree`` a repository with one commit of everything in it; return the id, which depends on content alone.

    It has neither remote nor reflog nor hooks, and ignore rules hide no file. Only for trees that no agent has touched.
    """
    settings = {
        "core.autocrlf": "false",
        "core.safecrlf": "false",
        "core.hooksPath": "/dev/null",
        "core.logAllRefUpdates": "false",
        "core.excludesFile": "/dev/null",
        "core.attributesFile": "/dev/null",
        "core.fileMode": "true",
        "core.compression": "6",
        "commit.gpgSign": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "pack.threads": "1",
        "init.defaultBranch": "main",
        "init.defaultObjectFormat": "sha1",
        "init.defaultRefFormat": "files",
        "index.version": "2",
    }
    prefix = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def run(*arguments: str) -> str:
        try:
            return run_git(tree, *prefix, *arguments, variables=_IDENTITY)
        except SnapshotError as error:
            raise SnapshotError(f"git {arguments[0]} failed: {error}") from error

    run("init", "--quiet", "--template=")
    # Attributes in the tree may not change contents that are added: these override any .gitattributes.
    info = tree / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("* -text -filter -ident -working-tree-encoding -eol\n")
    run("add", "--all", "--force", ".")
    run("commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim", "--message", "Initial commit")
    run("repack", "-a", "-d", "-q")
    commit = run("rev-parse", "HEAD")
    (tree / ".git" / "config").write_text(_CONFIG)
    for name in ("logs", "hooks", "branches", "description", "COMMIT_EDITMSG", "FETCH_HEAD", "ORIG_HEAD", "index.lock"):
        trees.remove(tree / ".git" / name)
    trees.normalise(tree / ".git")
    return commit
