"""The address of a task set on the Hub: ``hub:USER/NAME@REVISION``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import HubError

PREFIX = "hub:"
MAIN = "main"
"""The branch of an address that names no revision."""
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubAddress:
    """A repository and a revision of it: a branch, a tag or a commit."""

    repo_id: str
    revision: str = MAIN

    @property
    def pinned(self) -> bool:
        """Return whether the revision is a full commit id, whose content cannot change."""
        return bool(_COMMIT.fullmatch(self.revision))

    def __str__(self) -> str:
        return f"{PREFIX}{self.repo_id}@{self.revision}"


def is_address(path: Path | str) -> bool:
    """Return whether a path is written as an address of the Hub."""
    return str(path).startswith(PREFIX)


def parse_address(text: str) -> HubAddress:
    """Return the address in ``hub:USER/NAME`` or ``hub:USER/NAME@REVISION``. Raises HubError."""
    repo_id, at, revision = text.removeprefix(PREFIX).partition("@")
    if at and not revision:
        raise HubError(f"{text!r} names no revision after the @; write hub:USER/NAME@REVISION")
    return HubAddress(check_repo_id(repo_id), revision or MAIN)


def check_repo_id(repo_id: str) -> str:
    """Return the name of a repository if it is one. Raises HubError."""
    if not re.fullmatch(f"{_PART}/{_PART}", repo_id) or ".." in repo_id or "--" in repo_id:
        raise HubError(f"{repo_id!r} is not the name of a repository; write USER/NAME, such as ada/counting-tasks")
    return repo_id
