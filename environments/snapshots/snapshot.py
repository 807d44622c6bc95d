"""Snapshot record: a source made runnable, read-only, addressed by the digest of its recipe."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ...errors import SnapshotError
from ...models import PytestVerifier, SnapshotRef
from ..sandbox import ENV_PREFIX, PYTHON_PREFIX, WORKSPACE, Layers
from .builder import environment
from .builder.interpreter import Interpreter, find_interpreter, installed_prefix, probe
from .recipe import Recipe, canonical_json
from .store.cache import file_lock, publish_folder
from .test_run.baseline import Baseline


@dataclass(frozen=True)
class Snapshot:
    """A built snapshot: ``path`` is its read-only folder in ``cache``, ``interpreter`` the one on this machine."""

    digest: str
    recipe: Recipe
    path: Path
    baseline: Baseline
    interpreter: Interpreter
    cache: Path

    @property
    def tree(self) -> Path:
        """Return the pristine source tree."""
        return self.path / "tree"

    @property
    def verifier(self) -> PytestVerifier:
        """Return how the whole suite is run."""
        return self.recipe.verifier

    @property
    def name(self) -> str:
        """Return the distribution name of the project."""
        return self.recipe.name

    @property
    def version(self) -> str:
        """Return the version of the project."""
        return self.recipe.version

    @property
    def licence(self) -> str:
        """Return the SPDX expression of the project's licence; empty when unknown."""
        return self.recipe.licence

    @property
    def passing_tests(self) -> int:
        """Return the number of stable tests."""
        return len(self.baseline.passed)

    @property
    def source_roots(self) -> list[str]:
        """Return the paths of packages and modules in the tree: ``src/pkg``, ``module.py``."""
        return sorted(self.recipe.packages.values())

    @property
    def source_globs(self) -> list[str]:
        """Return the source roots as patterns: ``src/pkg/**``, ``module.py``."""
        return [root if root.endswith(".py") else f"{root}/**" for root in self.source_roots]

    @property
    def tests(self) -> list[str]:
        """Return the places of the tests: folders and files in the tree."""
        return self.recipe.tests

    @property
    def ref(self) -> SnapshotRef:
        """Return the record from which a task can have this snapshot built again."""
        return SnapshotRef(digest=self.digest, recipe=self.recipe.model_dump(mode="json"))

    def layers(self, workspace: Path) -> Layers:
        """Return the sandbox layers with ``workspace`` (this tree, or one made from it) at ``/workspace``."""
        return make_layers(self.recipe, self.path, self.cache, self.interpreter, workspace)


def make_layers(recipe: Recipe, folder: Path, cache: Path, interpreter: Interpreter, workspace: Path) -> Layers:
    """Return the layers of a snapshot, finished or not, in ``folder``."""
    python = installed_prefix(interpreter, cache)
    binds = {ENV_PREFIX: folder / "env"}
    unmapped = {ENV_PREFIX: environment.unmapped_head(folder, cache, interpreter, python)}
    if not interpreter.in_base:
        binds[PYTHON_PREFIX] = python
        unmapped[PYTHON_PREFIX] = python
    parts = [*recipe.verifier.python_path, "."]  # a test run has the same folders
    roots = dict.fromkeys(os.path.normpath(f"{WORKSPACE}/{part}") for part in parts)
    variables = {"PYTHONPATH": ":".join(roots), **recipe.env, **environment.variables(interpreter)}
    return Layers(workspace=workspace, binds=binds, unmapped=unmapped, env=variables)


def publish(cache: Path, folder: Path, recipe: Recipe, baseline: Baseline, interpreter: Interpreter) -> Snapshot:
    """Write the records of a snapshot beside its trees and move ``folder`` into the cache, unless it is there.

    Raises SnapshotError when something clears the cache at the same time.
    """
    (folder / "recipe.json").write_text(recipe.canonical(), "ascii")
    (folder / "baseline.json").write_text(baseline.dump(), "ascii")
    place = {"executable": str(interpreter.executable), "platform": recipe.platform, "version": recipe.python}
    (folder / "interpreter.json").write_text(canonical_json(place), "ascii")
    digest = recipe.digest()
    with file_lock(cache, f"publish-{digest[:32]}"):
        if load(cache, digest) is None:
            publish_folder(folder, cache / "snapshots" / digest)
    loaded = load(cache, digest)
    if loaded is None:
        raise SnapshotError(f"snapshot {digest[:12]} vanished from the cache {cache}; make sure that nothing clears it")
    return loaded


def load(cache: Path, digest: str) -> Snapshot | None:
    """Return the snapshot from the cache, or None when it is missing or damaged and must be built again.

    Raises UnsupportedPython when this machine no longer has its interpreter.
    """
    folder = cache / "snapshots" / digest
    if not ((folder / "tree").is_dir() and (folder / "env").is_dir()):
        return None
    try:
        recipe = Recipe.model_validate_json((folder / "recipe.json").read_text("ascii"))
        baseline = Baseline.load((folder / "baseline.json").read_text("ascii"))
        interpreter = probe(json.loads((folder / "interpreter.json").read_text("ascii"))["executable"])
    except (FileNotFoundError, ValueError, LookupError):
        return None
    if interpreter is None or interpreter.version != recipe.python:  # replaced or removed since the build
        interpreter = find_interpreter(recipe.python)
    return Snapshot(digest, recipe, folder, baseline, interpreter, cache)
