"""Specification of an environment, as a data set states it, and the record of what was installed for it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field

from ..recipe import canonical_json

_VERSION = "1"


@dataclass(frozen=True)
class Specification:
    """Environment that a data set states for one version of a project."""

    repo: str
    """Repository as ``owner/name``."""
    version: str
    """Version of the project as the data set writes it."""
    python: str
    """Version of the interpreter (``3.9``); one that is older than the test plugins support is raised to theirs."""
    requirements: tuple[str, ...] = ()
    """Requirements to install; one that cannot be had beside the project's own is left out with a note."""
    requirement_files: tuple[str, ...] = ()
    """pip files in the tree; the first that exists is read."""
    extras: tuple[str, ...] = ()
    """Extras of the project to install."""
    edits: tuple[str, ...] = ()
    """``sed -i`` commands for the project's build files; they change what is built, never the workspace."""
    as_of: str = ""
    """Date (``2024-06-30``) after which no file of the package index is considered."""
    packages: tuple[tuple[str, str], ...] = ()
    """Import names and their places in the tree, where they cannot be detected: ``(("django", "django"),)``."""
    program: str = ""
    """The project's own unittest program; empty where pytest runs the tests."""
    arguments: tuple[str, ...] = ()
    """Other arguments of every test run."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables of every run."""

    def key(self) -> str:
        """Return the digest of the specification."""
        return hashlib.sha256(canonical_json([_VERSION, asdict(self)]).encode()).hexdigest()


@dataclass(frozen=True)
class BuiltEnvironment:
    """What was installed for a specification, and what the project's build added to its tree."""

    name: str
    version: str
    licence: str
    lines: list[str]
    packages: dict[str, str]
    plugins: list[str]
    generated: dict[str, str]
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """Wall time of the build."""
    bytes: int = 0
    """Size of the installed files."""

    @property
    def compiled(self) -> bool:
        """Return whether the project's build makes compiled modules, which fit one commit alone."""
        return any(path.endswith(".so") for path in self.generated)
