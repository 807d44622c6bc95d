"""The files of a repository before they are pushed, with their manifest; ``write_tree`` writes them to a folder."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ....environments.hub.manifest import CARD, MANIFEST, FileHash, Kind, Manifest, sha256_of
from ....errors import HubError
from ..publish import new_folder

REPO_TYPES: dict[Kind, Literal["dataset", "model"]] = {"tasks": "dataset", "episodes": "dataset", "model": "model"}


@dataclass(frozen=True)
class RepoTree:
    """Content of a repository."""

    kind: Kind
    files: Mapping[str, Path | bytes]
    """A local file, or bytes, for each path in the repository; the card and the manifest are not in it."""
    card: str
    """Text of ``README.md``."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """Numbers that the command prints, such as rows by split."""

    @property
    def repo_type(self) -> Literal["dataset", "model"]:
        """Return the type of repository that holds this kind."""
        return REPO_TYPES[self.kind]

    @cached_property
    def manifest(self) -> Manifest:
        """Return the manifest of the files. Raises OSError."""
        return Manifest(kind=self.kind, files={path: hash_of(self.files[path]) for path in sorted(self.files)})

    @cached_property
    def all_files(self) -> dict[str, Path | bytes]:
        """Return every file with the card and, last, the manifest."""
        return {**self.files, CARD: self.card.encode(), MANIFEST: self.manifest.text().encode()}

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(map(size_of, self.all_files.values()))


def hash_of(content: Path | bytes) -> FileHash:
    """Return the hash and size of a file. Raises OSError."""
    if isinstance(content, bytes):
        return FileHash(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    return FileHash(sha256=sha256_of(content), bytes=content.stat().st_size)


def size_of(content: Path | bytes) -> int:
    """Return the size of a file in bytes. Raises OSError."""
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def write_tree(tree: RepoTree, out: Path) -> None:
    """Write the repository to the new folder ``out``, which appears atomically. Raises HubError."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise HubError(f"{out} is not empty; choose another folder for --dry-run")
    try:
        with new_folder(out) as new:
            for path, content in tree.all_files.items():
                file = new / path
                file.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    file.write_bytes(content)
                else:
                    shutil.copyfile(content, file)
    except OSError as error:
        raise HubError(f"cannot write {out}: {error.strerror}; free some space, or choose another folder") from error
