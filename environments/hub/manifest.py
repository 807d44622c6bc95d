"""The manifest of a pushed repository: the sha256 of each of its files, by which a reader knows that none changed.

The card ``README.md`` is not in it, because people edit cards on the Hub and nothing is played from there.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from ...errors import HubError
from ...models import Record

MANIFEST = "etude-manifest.json"
CARD = "README.md"
Kind = Literal["tasks", "episodes", "model"]
"""Content of a repository."""


class FileHash(Record):
    """Hash and size of a file."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class Manifest(Record):
    """Content of ``etude-manifest.json``; ``files`` are by their path in the repository."""

    schema_version: Literal[1] = 1
    kind: Kind
    files: dict[str, FileHash]

    @field_validator("files")
    @classmethod
    def _paths_stay_inside(cls, files: dict[str, FileHash]) -> dict[str, FileHash]:
        for path in files:
            parts = PurePosixPath(path).parts
            if not parts or path.startswith("/") or ".." in parts:
                raise ValueError(f"{path!r} is not a path within the repository")
        return files

    def text(self) -> str:
        """Return the manifest as it is stored; equal files give equal text."""
        return json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"


def read_manifest(data: bytes, place: str) -> Manifest:
    """Return the manifest in a file's bytes; ``place`` is named when it cannot be read. Raises HubError."""
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise HubError(f"{place}: {MANIFEST} cannot be read ({first['msg']}); push the folder again") from None


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's bytes in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_files(folder: Path, manifest: Manifest, paths: list[str], place: str) -> None:
    """Check that the files ``paths`` of ``folder`` are those of the manifest; a file of another size is not hashed.

    Raises HubError, which names the first that is another.
    """
    for path in paths:
        entry, file = manifest.files[path], folder / path
        if not file.is_file():
            raise HubError(f"{place} lacks {path}, which its manifest lists; name another revision")
        if file.stat().st_size != entry.bytes or sha256_of(file) != entry.sha256:
            raise HubError(
                f"{place}: {path} is not the file that was pushed (its sha256 is not the manifest's); name another "
                f"revision, or delete {folder} if the copy here is damaged"
            )
