"""Commits of a repository and three-way merges of their trees, read with git's plumbing from objects alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ....environments.snapshots.source.history import ObjectStore
from ....errors import GeneratorError, Rejected, SnapshotError

_FORMAT = "%H%x00%P%x00%cs%x00%an%x00%cn%x00%B%x00%x01"


@dataclass(frozen=True)
class Commit:
    """One commit."""

    sha: str  # its full id
    parents: tuple[str, ...]  # ids of its parents
    date: str  # day on which it was committed, YYYY-MM-DD
    people: tuple[str, ...]  # names of its author and its committer
    message: str  # the whole message


@dataclass(frozen=True)
class Change:
    """The difference between two commits."""

    before: str  # id of the commit before the change
    after: str  # id of the commit with the change
    lines: Mapping[str, int]  # number of added and deleted lines by path; 0 for a binary file


@dataclass(frozen=True)
class Merged:
    """A three-way merge into the head."""

    files: Mapping[str, str | None]  # path to the object id of the new content, where it differs; None when absent
    conflicts: frozenset[str]  # paths that cannot be merged


class Repository:
    """The history that leads to the head."""

    def __init__(self, store: ObjectStore, head: str = "") -> None:
        """Read the history that leads to ``head`` (default: the store's). Raises GeneratorError for another one."""
        self._store = store
        self.head = head or store.head
        if head and not re.fullmatch(r"[0-9a-f]{40}", head):
            raise GeneratorError(f"knob head must be a full commit id of 40 digits, got {head!r}")
        try:
            store.git("cat-file", "-e", f"{self.head}^{{commit}}")
        except SnapshotError:
            raise GeneratorError(f"the history holds no commit {self.head}; fetch it, or choose another head") from None

    def commits(self, *options: str) -> Iterator[Commit]:
        """Yield commits that lead to the head, newest first; ``options`` are those of ``git rev-list``."""
        yield from self._listed(*options, self.head)

    def brought_by(self, merge: Commit) -> Iterator[Commit]:
        """Yield the commits that a merge brought, newest first."""
        yield from self._listed("--no-merges", merge.parents[1], f"^{merge.parents[0]}")

    def _listed(self, *arguments: str) -> Iterator[Commit]:
        listing = self._store.git("rev-list", "--no-commit-header", f"--format={_FORMAT}", *arguments)
        for record in listing.decode("utf-8", "replace").split("\0\x01"):
            parts = record.lstrip("\n").split("\0", 5)
            if len(parts) == 6:
                sha, parents, date, author, committer, message = parts
                yield Commit(sha, tuple(parents.split()), date, (author, committer), message.strip())

    @cached_property
    def people(self) -> frozenset[str]:
        """Return the full names of everyone who wrote or committed something."""
        listing = self._store.git("rev-list", "--no-commit-header", "--format=%an%x00%cn", self.head)
        names = re.split(r"[\0\n]", listing.decode("utf-8", "replace"))
        return frozenset(name.strip() for name in names if " " in name.strip())

    def change(self, before: str, after: str) -> Change:
        """Return which files differ between two commits, and by how many lines; a renamed file counts twice."""
        arguments = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
        lines: dict[str, int] = {}
        for entry in self._store.git(*arguments, before, after).decode("utf-8", "surrogateescape").split("\0"):
            added, _, remaining = entry.partition("\t")
            deleted, _, path = remaining.partition("\t")
            if path:
                lines[path] = sum(int(number) for number in (added, deleted) if number.isdigit())
        return Change(before, after, lines)

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in a commit; None when there is none."""
        try:
            return self._store.git("cat-file", "blob", f"{commit}:{path}")
        except SnapshotError:
            return None

    def blob(self, name: str) -> bytes:
        """Return the content of an object."""
        return self._store.git("cat-file", "blob", name)

    def taken_back(self, change: Change) -> Merged:
        """Return the head merged with the reverse of a change. Raises Rejected when git cannot merge trees."""
        current = self._commit(self.head, change.after)
        reverted = self._commit(change.before, change.after)
        try:
            # Exit code 1 says that there are conflicts; their paths follow the id of the tree.
            output = self._store.git(
                "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", current, reverted, accepted=1
            )
        except SnapshotError as error:
            if "usage:" in str(error) or "unknown option" in str(error):
                raise SnapshotError("tasks from history need git 2.38 or newer; update git") from None
            raise Rejected("history_unmergeable", str(error)) from None
        tree, *conflicts = (part for part in output.decode("utf-8", "surrogateescape").split("\0") if part)
        return Merged(self._differences(tree), frozenset(conflicts))

    def _commit(self, tree_of: str, parent: str) -> str:
        """Return a commit with the tree of another one on ``parent``, so that a merge takes ``parent`` as its base."""
        return self._store.git("commit-tree", f"{tree_of}^{{tree}}", "-p", parent, "-m", "x").decode().strip()

    def _differences(self, tree: str) -> dict[str, str | None]:
        listing = self._store.git("diff-tree", "-r", "-z", "--raw", "--no-renames", f"{self.head}^{{tree}}", tree)
        parts = listing.decode("utf-8", "surrogateescape").split("\0")
        result: dict[str, str | None] = {}
        for header, path in zip(parts[::2], parts[1::2], strict=False):
            _, mode, _, new, _ = header.split(" ")
            result[path] = new if int(mode, 8) else None
        return result
