"""Options with which a user requests a snapshot, and the recipe that describes it, whose hash is its address."""

from __future__ import annotations

import hashlib
import json
import platform
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from ...errors import BadOptions
from ...models import PytestVerifier, Record, UnittestVerifier
from ...registry import did_you_mean

BUILDER = "2"
"""Version of the builder; it changes when the same recipe would be built into something else."""
DEFAULT_PYTEST = "8.3.5"
LATER_PYTEST = "9.1.1"
"""Version of pytest for projects whose configuration or requirements the default one does not meet."""


class SnapshotOptions(BaseModel):
    """Options of a build, all of them optional; everything else is detected."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: str | None = None
    """Version (``3.12``, ``3.12.1``) or path of the interpreter; default: the one that runs Etude."""
    pytest: str = DEFAULT_PYTEST
    """Exact version of pytest; where the user names none, a later one for projects that need it."""
    setup_cmds: tuple[str, ...] = ()
    """Shell commands run in the tree, on this machine, before the baseline; trusted like the project's own build."""
    requirements: tuple[str, ...] = ()
    """Requirements added to the detected ones; they must install."""
    test_args: tuple[str, ...] = ()
    """Test paths, which replace the detected ones, and pytest options (words that start with a dash)."""
    deselect: tuple[str, ...] = ()
    """Test ids, or their beginnings, that never run."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables set whenever code of the snapshot runs."""
    timeout_s: float = Field(default=300.0, gt=0)
    """CPU time that one run of the suite may use, in seconds; also how long it may be idle."""

    @classmethod
    def from_toml(cls, path: Path) -> SnapshotOptions:
        """Read a recipe file, a TOML table with these fields. Raises BadOptions."""
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise BadOptions(f"cannot read the recipe {path} ({error.strerror}); name a TOML file") from error
        except ValueError as error:
            raise BadOptions(f"the recipe {path.name} is not TOML ({error}); repair it") from error
        for name in table:
            if name not in cls.model_fields:
                raise BadOptions(f"{path.name}: {did_you_mean('setting', name, cls.model_fields)}")
        try:
            return cls(**table)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadOptions(f"{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


class SourceRef(Record):
    """A source by content; its canonical name contains no host path."""

    kind: Literal["pypi", "git", "folder", "archive"]
    spec: str
    sha256: str


class Recipe(Record):
    """Everything a snapshot is made from; no time, host or user is part of it."""

    schema_version: int = 1
    source: SourceRef
    """Where the code comes from, and the hash of its files."""
    name: str
    """Distribution name of the project."""
    version: str
    """Version of the project."""
    licence: str = ""
    """SPDX expression, empty when unknown."""
    scm_version: str = ""
    """Version that the repository's tags give, for projects that ask their repository."""
    python: str
    """Exact version of the interpreter."""
    platform: str
    """Platform tag of the interpreter, such as ``linux-x86_64``."""
    builder: str = BUILDER
    """Version of the builder."""
    base: str
    """Distribution of the sandbox's base layer, such as ``debian-12``."""
    pytest: str
    """Exact version of pytest."""
    requirements: list[str]
    """Locked dependencies: ``name==version --hash=sha256:...``."""
    setup_cmds: list[str] = Field(default_factory=list)
    """Shell commands run in the tree before the baseline."""
    packages: dict[str, str]
    """Import name -> path in the tree."""
    tests: list[str]
    """Places of the tests in the tree."""
    verifier: Annotated[UnittestVerifier | PytestVerifier, Field(discriminator="kind")]
    """How the whole suite is run."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables set whenever code of the snapshot runs."""
    generated: dict[str, str] = Field(default_factory=dict)
    """Files that the build adds to the tree: ``base64:CONTENT``, or for large ones ``sha256:HASH`` to compare."""

    measured: bool = True
    """Whether the suite was run three times for a baseline; False where a row brings the tests that decide."""

    as_of: str = ""
    """Date after which no file of the package index was considered; empty for none."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the two fields of specified snapshots elsewhere: the digests of others do not depend on them."""
        table: dict[str, Any] = dump(self)
        return table if not self.measured else {k: v for k, v in table.items() if k not in ("measured", "as_of")}

    def canonical(self) -> str:
        """Return the one JSON text of this recipe."""
        return canonical_json(self.model_dump(mode="json"))

    def digest(self) -> str:
        """Return the sha256 of the canonical text."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, without spaces, in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def base_id() -> str:
    """Return the distribution that the sandbox's base layer is taken from, such as ``debian-12``."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return "-".join(part for part in (release.get("ID", "linux"), release.get("VERSION_ID", "")) if part)
