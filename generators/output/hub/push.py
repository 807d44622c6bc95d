"""The upload of a repository: files that are there already are not sent again, and one commit at the end adds them all.

Large files are sent before the commit and stay on the Hub when a push is interrupted; readers see nothing until then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....environments.hub.address import MAIN, check_repo_id
from ....environments.hub.client import hub_cache, hub_client, reporting
from ....environments.hub.manifest import MANIFEST, Manifest, read_manifest
from ....errors import HubError
from ...base import Progress, ProgressUpdate, no_progress
from .repo_tree import RepoTree, hash_of, size_of

_RESUME = " and run the same command again to resume"
_NOT_OURS = frozenset({".gitattributes"})
"""Files that the Hub itself puts into a new repository."""


@dataclass
class PushReport:
    """What was pushed."""

    kind: str  # tasks, episodes or model
    repository: str  # USER/NAME
    branch: str
    commit: str  # its id; that of the branch when nothing had changed
    url: str
    files: int  # files of the repository
    changed: int  # files that the branch lacked and this commit adds
    bytes: int  # their size


def push(
    tree: RepoTree,
    repo_id: str,
    *,
    public: bool = False,
    branch: str = MAIN,
    update: bool = False,
    progress: Progress = no_progress,
) -> PushReport:
    """Push a repository and return what was sent. A new repository is private unless ``public``.

    The token is the one of huggingface_hub: HF_TOKEN, or its login. Raises HubError when the repository holds something
    else, or another set and ``update`` is not given; the branch then is as it was.
    """
    check_repo_id(repo_id)
    api = hub_client()
    with reporting(f"cannot push to {repo_id}", resume=_RESUME):
        progress(ProgressUpdate("comparing", 0, 0))
        target = _Target(api, repo_id, tree.repo_type, branch)
        target.open(public)
        remote = target.files()
        previous = target.manifest(remote)
        _check_content(tree, remote, previous, repo_id, update)
        return _send(tree, target, remote, previous, progress)


@dataclass
class _Target:
    """A branch of a repository, through huggingface_hub's client."""

    api: Any
    repo_id: str
    repo_type: str
    branch: str
    head: str = ""

    def open(self, public: bool) -> None:
        """Check the token, and create the repository and the branch if they do not exist. Raises HubError."""
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

        self.api.whoami()
        try:
            info = self.api.repo_info(self.repo_id, repo_type=self.repo_type)
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            self.api.create_repo(self.repo_id, repo_type=self.repo_type, private=not public)
        else:
            if bool(info.private) == public:
                state, remedy = ("private", "leave --public out") if public else ("public", "give --public")
                raise HubError(f"{self.repo_id} exists and is {state}; {remedy}, or change that in its settings")
        if self.branch != MAIN:
            self.api.create_branch(self.repo_id, repo_type=self.repo_type, branch=self.branch, exist_ok=True)
        self.head = self.api.repo_info(self.repo_id, repo_type=self.repo_type, revision=self.branch).sha

    def files(self) -> dict[str, Any]:
        """Return the files of the branch by path."""
        listed = self.api.list_repo_tree(
            self.repo_id, repo_type=self.repo_type, revision=self.head, recursive=True, expand=False
        )
        return {item.path: item for item in listed if hasattr(item, "blob_id")}

    def manifest(self, remote: Mapping[str, Any]) -> Manifest | None:
        """Return the manifest of an earlier push; None without one. Raises HubError when it cannot be read."""
        if MANIFEST not in remote:
            return None
        about = {"repo_type": self.repo_type, "revision": self.head, "cache_dir": hub_cache()}
        file = self.api.hf_hub_download(self.repo_id, MANIFEST, **about)
        return read_manifest(Path(file).read_bytes(), self.repo_id)


def _check_content(
    tree: RepoTree, remote: Mapping[str, Any], previous: Manifest | None, repo_id: str, update: bool
) -> None:
    """Raise HubError when the push would replace something else."""
    names = sorted(set(remote) - _NOT_OURS)
    if not names:
        return
    if previous is None:
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise HubError(f"{repo_id} exists and holds other files ({shown}); choose another name")
    if previous.kind != tree.kind:
        raise HubError(f"{repo_id} exists and holds {previous.kind}, not {tree.kind}; choose another name")
    if previous != tree.manifest and not update:
        raise HubError(
            f"{repo_id} exists and holds another push of {previous.kind}; choose another name, or give --update to "
            "replace it in a new commit"
        )


def _send(
    tree: RepoTree, target: _Target, remote: Mapping[str, Any], previous: Manifest | None, progress: Progress
) -> PushReport:
    """Send what the branch lacks, then commit."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    new = {path: content for path, content in tree.all_files.items() if not _is_there(content, remote.get(path))}
    size = sum(map(size_of, new.values()))
    report = PushReport(tree.kind, target.repo_id, target.branch, target.head, "", len(tree.all_files), len(new), size)
    additions: list[Any] = []
    for path, content in new.items():
        progress(ProgressUpdate(f"sending {path}", len(additions), len(new)))
        addition = CommitOperationAdd(path, content if isinstance(content, bytes) else str(content))
        _check_unchanged(path, addition, tree.manifest)
        target.api.preupload_lfs_files(
            target.repo_id, [addition], repo_type=target.repo_type, revision=target.branch, free_memory=False
        )
        additions.append(addition)
    outdated = sorted((set(previous.files) if previous else set()) & set(remote) - set(tree.all_files))
    operations: Sequence[Any] = [*additions, *(CommitOperationDelete(path) for path in outdated)]
    if operations:
        progress(ProgressUpdate("committing", len(new), len(new)))
        report.commit = target.api.create_commit(
            target.repo_id,
            operations,
            repo_type=target.repo_type,
            revision=target.branch,
            parent_commit=target.head,
            commit_message=f"Add {tree.kind} with etude push",
        ).oid
    prefix = "" if tree.repo_type == "model" else f"{tree.repo_type}s/"
    report.url = f"{target.api.endpoint}/{prefix}{target.repo_id}/tree/{report.commit}"
    return report


def _is_there(content: Path | bytes, item: Any) -> bool:
    """Return whether a file of the branch has the same content: by sha256 for a large one, else by git's hash."""
    if item is None or item.size != size_of(content):
        return False
    if item.lfs is not None:
        return bool(item.lfs.sha256 == hash_of(content).sha256)
    data = content if isinstance(content, bytes) else content.read_bytes()
    return bool(item.blob_id == hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())


def _check_unchanged(path: str, addition: Any, manifest: Manifest) -> None:
    """Raise HubError when a file has changed since its hash was taken."""
    entry = manifest.files.get(path)
    if entry is not None and addition.upload_info.sha256.hex() != entry.sha256:
        raise HubError(f"{path} changed while it was pushed; run the same command again")
