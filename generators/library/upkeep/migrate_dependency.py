"""The generator ``migrate_dependency``: the code was written for an older version of a dependency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ....environments.snapshots.builder.environment import site_packages
from ....environments.snapshots.builder.older import locked_versions
from ....models import GeneratorRef
from ...base import Candidate, Files, HiddenTests, Migration, StatementContext
from ...python.source import apply_edits
from ...python.tested_code import TestedCode, in_seed_order
from ...statements.behaviours import bullets
from ..deletion.partial.rewriting.line_edits import tidied
from ..deletion.removal.name_index import NameIndex
from .migration.installed import Installed
from .migration.shims import Shim, shims

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot


@dataclass(frozen=True)
class Knobs:
    """Which files may hold the code for the older version."""

    keep_helpers: bool = False
    """Leave private helpers and imports that only the code for the new version used."""


@dataclass(frozen=True)
class MigrationStatement:
    """The dependency, its two versions, and the files that use it."""

    dependency: str  # distribution name
    version: str  # the installed version
    paths: Sequence[str]  # files that have to be changed

    def render(self, context: StatementContext) -> str:
        """Return what was upgraded and what has to work."""
        failing = len(context.failing)
        paragraphs = [
            f"# Migrate to {self.dependency} {self.version}",
            f"This code base, the {context.package} package, works with {self.dependency} {context.older}: all its "
            f"tests passed there. The environment now has {self.dependency} {self.version}, in which names that the "
            f"code imports were removed or replaced, and {failing} test{'' if failing == 1 else 's'} of the suite "
            f"fail{'s' if failing == 1 else ''} or cannot be collected. Change the package's code so that the whole "
            f"suite passes with {self.dependency} {self.version}. The environment, the tests and the package's public "
            "names stay as they are.",
            "The code that needs the older version is in:\n\n" + bullets(f"`{path}`" for path in self.paths),
            f"The installed sources of {self.dependency} show what replaces a removed name. Support for the older "
            "version may remain, and need not.",
        ]
        return "\n\n".join(paragraphs) + "\n"


class DependencyMigration:
    """Reduce a package to its code for an older version of a dependency, and ask to migrate it to the locked one.

    Validation installs an older version beside the other locked packages and runs the suite there: the exercise has to
    pass all of it.
    """

    name = "migrate_dependency"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per dependency for whose versions the package has shims, in seed order."""
        code = TestedCode(snapshot)
        index = NameIndex.of(code.tree)
        installed = Installed(site_packages(snapshot.path / "env", snapshot.interpreter))
        by_dependency: dict[str, list[Shim]] = {}
        for path in sorted(index.own):
            for shim in shims(index.files[path], installed):
                by_dependency.setdefault(shim.dependency, []).append(shim)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        versions = locked_versions(snapshot)
        for dependency in in_seed_order(by_dependency, seed, self.name, key=str):
            if dependency in versions:
                migration = Migration(dependency, versions[dependency])
                yield _propose(code, by_dependency[dependency], migration, reference, knobs)


def _propose(
    code: TestedCode, old_branches: Sequence[Shim], migration: Migration, reference: GeneratorRef, knobs: Knobs
) -> Candidate:
    exercise: Files = {}
    for path in sorted({item.file.path for item in old_branches}):
        edits = [edit for item in old_branches if item.file.path == path for edit in item.edits()]
        exercise |= tidied(code.tree, path, apply_edits(code.tree.read(path), edits), keep_helpers=knobs.keep_helpers)
    return Candidate(
        entity=f"{sorted(exercise)[0]}::{migration.dependency}",
        generator=reference,
        exercise=exercise,
        hidden_tests=HiddenTests(code.baseline.passed, "visible"),
        statement=MigrationStatement(migration.dependency, migration.version, sorted(exercise)),
        features={"shims": len(old_branches)},
        max_failing_share=1,
        migration=migration,
    )
