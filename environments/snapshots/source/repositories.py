"""Git sources, read object by object: without a work tree no hook, filter, attribute or submodule ever acts."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....errors import BadSource, SnapshotError, SourceNotFound
from ..log_text import last_lines
from ..store.trees import check_links

QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ALLOW_PROTOCOL": "file:http:https:ssh:git",
    "LC_ALL": "C",
}
# With these a user says how git reaches a server.
_TRANSPORT = ("GIT_ASKPASS", "GIT_CONFIG_", "GIT_HTTP_", "GIT_PROXY_", "GIT_SSH", "GIT_SSL_")


def run_git(folder: Path, *arguments: str, variables: Mapping[str, str], data: bytes = b"") -> str:
    """Run git in ``folder``, without the user's settings, and return its output; ``data`` is its standard input.

    A repository around the folder would make git silently skip files that it considers outside: it is not searched.
    Raises SnapshotError.
    """
    return git_bytes(folder, *arguments, variables=variables, data=data).decode("ascii", "replace").strip()


def git_bytes(
    folder: Path, *arguments: str, variables: Mapping[str, str], data: bytes = b"", accepted: int = 0
) -> bytes:
    """Run git as ``run_git`` does and return its output as it is; an exit code above ``accepted`` is an error.

    Raises SnapshotError.
    """
    root = os.path.realpath(folder)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**inherited, **QUIET, "GIT_CEILING_DIRECTORIES": os.path.dirname(root), **variables}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, env=environment, input=data, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise SnapshotError("git is needed to make workspaces and to apply patches; install git") from error
    if not 0 <= done.returncode <= accepted:
        fatal = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("fatal:")]
        raise SnapshotError(fatal[0] if fatal else last_lines(done.stderr, 3))
    return done.stdout


@dataclass(frozen=True)
class Exported:
    """An exported revision: its canonical spec, the repository's name, and the version that its tags give."""

    spec: str
    name: str
    version: str


def export(spec: str, target: Path) -> Exported:
    """Clone beside ``target`` and write the revision's files into it. Raises BadSource, SourceNotFound."""
    url, at, revision = spec.removeprefix("git+").rpartition("@")
    if not at or "/" not in url or not revision or "://" not in url:
        raise BadSource(f"{spec} names no revision; write git+URL@REVISION (a tag or a full commit id)")
    if revision.startswith("-") or not re.match(r"^(https?|ssh|git|file)://", url):
        raise BadSource(f"{spec} is not a git address; write git+https://...@REVISION")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="clone-") as folder:
        repository = Path(folder, "clone")
        try:
            clone(url, repository)
        except SnapshotError as error:
            raise SourceNotFound(f"git cannot clone {url}: {error}; check the address and your access") from error
        try:
            commit = run_git(repository, "rev-parse", "--verify", f"{revision}^{{commit}}", variables={})
        except SnapshotError as error:
            raise SourceNotFound(f"{url} has no revision {revision}; give a tag or a full commit id") from error
        exported = export_commit(repository, commit, target)
    name = re.sub(r"\.git$", "", url.rstrip("/").rpartition("/")[2])
    # A file:// address is a host path: it stays out of everything recorded.
    canonical = f"git+local:{name}@{commit}" if url.startswith("file:") else f"git+{url}@{commit}"
    return Exported(canonical, name, exported.version)


def clone(url: str, target: Path, kind: str = "--bare") -> None:
    """Clone a repository without a work tree and without hooks. Raises SnapshotError with git's reason."""
    options = ("--quiet", kind, "--template=", "-c", "core.hooksPath=/dev/null")
    named = {name: value for name, value in os.environ.items() if name.startswith(_TRANSPORT) and name not in QUIET}
    run_git(target.parent, "clone", *options, url, str(target), variables=named)


def export_commit(repository: Path, commit: str, target: Path) -> Exported:
    """Write the files of a commit of a local clone, bare or not, into ``target``. Raises SourceNotFound.

    Objects are read as they are stored: no attribute, filter or hook of the repository acts.
    """
    try:
        full = _git(repository, "rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
        listing = _git(repository, "ls-tree", "-r", "-z", full).split(b"\0")
        entries = [(*entry.partition(b"\t")[0].split(), entry.partition(b"\t")[2]) for entry in listing if entry]
        blobs = [(mode, name, path) for mode, kind, name, path in entries if kind == b"blob"]
        contents = _git(repository, "cat-file", "--batch", data=b"".join(name + b"\n" for _, name, _ in blobs))
    except SnapshotError as error:
        raise SourceNotFound(
            f"{repository} has no commit {commit} ({error}); fetch it with all its branches"
        ) from error
    target.mkdir(parents=True)
    position = 0
    for mode, _, path in blobs:
        header_end = contents.index(b"\n", position)
        size_text = contents[position:header_end].rpartition(b" ")[2]
        if not size_text.isdigit():
            raise SourceNotFound(
                f"{repository} lacks the content of {os.fsdecode(path)} at {commit}: the clone is not whole; clone it "
                "again without --filter"
            )
        size = int(size_text)
        data, position = contents[header_end + 1 : header_end + 1 + size], header_end + size + 2
        file = target / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if mode == b"120000":
            file.symlink_to(os.fsdecode(data))
        else:
            file.write_bytes(data)
            file.chmod(0o755 if mode == b"100755" else 0o644)
    check_links(target)
    return Exported(f"git+local:{repository.name}@{full}", repository.name, _nearest_tag(repository, full))


def _nearest_tag(repository: Path, commit: str) -> str:
    try:
        return _version_in(_git(repository, "describe", "--tags", "--abbrev=0", commit).decode("utf-8", "replace"))
    except SnapshotError:
        return ""


def _git(repository: Path, *arguments: str, data: bytes = b"") -> bytes:
    """Run git on a clone, which may belong to another user, and return its output. Raises SnapshotError."""
    return git_bytes(repository, "-c", "safe.directory=*", *arguments, variables={}, data=data)


def _version_in(tag: str) -> str:
    match = re.search(r"\d+(\.\d+)*((a|b|rc|\.post|\.dev)\d+)?", tag)
    return match.group(0) if match else ""
