"""How a snapshot is asked for (options) and how it is made (recipe); the recipe's hash is its address."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import BadOptions
from ...models import PytestVerifier, Record
from ...registry import did_you_mean

BUILDER = "2"
DEFAULT_PYTEST = "8.3.5"


class SnapshotOptions(BaseModel):
    """What a person may say about a build; everything else is detected.

    ``python``: a version or an interpreter's path. ``setup_cmds`` are shell commands run in the tree, on this machine,
    with network, before the baseline: they are trusted like the project's own build. ``requirements`` are added to the
    detected ones. ``test_args`` replace the detected test paths (words without a dash) and add pytest options (the
    others). ``env`` is set whenever code of the snapshot runs. ``timeout_s`` bounds one run of the suite, in seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: str | None = None
    pytest: str = DEFAULT_PYTEST
    setup_cmds: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    test_args: tuple[str, ...] = ()
    deselect: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    timeout_s: float = Field(default=300.0, gt=0)

    @classmethod
    def from_toml(cls, path: Path) -> SnapshotOptions:
        """Read a recipe file: a TOML table with these fields. Raises BadOptions."""
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise BadOptions(f"cannot read the recipe {path}: {error.strerror}") from error
        except ValueError as error:
            raise BadOptions(f"the recipe {path.name} is not TOML: {error}") from error
        for name in table:
            if name not in cls.model_fields:
                raise BadOptions(f"{path.name}: {did_you_mean('setting', name, cls.model_fields)}")
        try:
            return cls(**table)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadOptions(f"{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


class SourceRef(Record):
    """A source by content: its canonical name holds no host path."""

    kind: Literal["pypi", "git", "folder", "archive"]
    spec: str
    sha256: str


class Recipe(Record):
    """Everything a snapshot is made from, and nothing of when, where or by whom.

    ``generated`` holds files that the project's build adds to its tree: ``base64:`` and their content, or, when large,
    ``sha256:`` and the hash that a new build must give again. ``packages`` maps import names to paths in the tree.
    """

    schema_version: int = 1
    source: SourceRef
    name: str
    version: str
    licence: str = ""
    scm_version: str = ""
    python: str
    platform: str
    builder: str = BUILDER
    base: str
    pytest: str
    requirements: list[str]
    setup_cmds: list[str] = Field(default_factory=list)
    packages: dict[str, str]
    tests: list[str]
    verifier: PytestVerifier
    env: dict[str, str] = Field(default_factory=dict)
    generated: dict[str, str] = Field(default_factory=dict)

    def canonical(self) -> str:
        """The one JSON text of this recipe."""
        return canonical_json(self.model_dump(mode="json"))

    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def base_id() -> str:
    """Which distribution the sandbox's base layer is taken from: ``debian-12``."""
    told: dict[str, str] = {}
    for path in (Path("/etc/os-release"), Path("/usr/lib/os-release")):
        if path.is_file():
            pairs = (line.partition("=") for line in path.read_text("utf-8").splitlines())
            told = {key: value.strip("\"'") for key, _, value in pairs}
            break
    return "-".join(part for part in (told.get("ID", "linux"), told.get("VERSION_ID", "")) if part)
