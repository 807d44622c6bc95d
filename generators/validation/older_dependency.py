"""The proof of a migration: before it, the code works with an older version of the dependency."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.version import Version

from ...environments.sandbox import open_sandbox
from ...environments.snapshots import Snapshot, run_tests
from ...environments.snapshots.builder.older import older_environment, older_layers
from ...environments.snapshots.store.cache import temporary_folder
from ...errors import DependencyFailed, Rejected
from ..base import Migration
from .limits import conclusive, suite_limit

ATTEMPTS = 3
"""Most older versions that are installed and tried."""


async def working_version(
    snapshot: Snapshot, backend: str, tree: Path, migration: Migration, tests: Sequence[str]
) -> str:
    """Return the newest older version of the dependency with which ``tests`` pass on ``tree``. Raises Rejected."""
    problem = "there is no older version"
    for specifier in _specifiers(Version(migration.version)):
        with temporary_folder(snapshot.cache) as folder:
            try:
                version = await asyncio.to_thread(older_environment, snapshot, migration.dependency, specifier, folder)
            except DependencyFailed as error:
                problem = str(error)
                continue
            sandbox = await open_sandbox(older_layers(snapshot, folder, tree), backend=backend)
            try:
                limit = suite_limit(snapshot)
                run = conclusive(await run_tests(sandbox, snapshot.verifier, list(tests), timeout_s=limit))
            finally:
                await sandbox.close()
        broken = [test for test in tests if test not in run.passed]
        if not broken:
            return version
        problem = f"{len(broken)} tests fail with {version}, such as {broken[0]}"
    raise Rejected("v2_older_dependency", f"{migration.dependency}: {problem}"[:300])


def _specifiers(version: Version) -> Iterator[str]:
    """Yield requirements for older versions: of an earlier minor version, of an earlier major one, of one before."""
    bounds = [f"<{version.major}.{version.minor}"] if version.minor else []
    bounds += [f"<{major}" for major in range(version.major, max(0, version.major - 2), -1)]
    yield from bounds[:ATTEMPTS]
