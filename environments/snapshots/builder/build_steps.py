"""One build of a snapshot in a staging folder: fetch, detect, resolve, install, measure, publish."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ....errors import BadOptions, BuildFailed, SnapshotError, SourceNotFound
from ....models import PytestVerifier
from ...sandbox import Limits, Sandbox
from .. import snapshot
from ..log_text import last_lines
from ..project import metadata
from ..project.dependency_guess import DependencyGuess, guess_dependencies
from ..project.layout import Layout, detect
from ..project.metadata import Project
from ..project.pytest_config import PytestConfig, options, read_config, usable_options, with_words
from ..recipe import Recipe, SnapshotOptions, SourceRef, base_id
from ..snapshot import Snapshot
from ..source import source
from ..source.project_files import required_python
from ..source.source import Source
from ..store import trees
from ..store.cache import file_lock, publish_folder
from ..test_run.baseline import Baseline, check_run, measure
from ..test_run.first_run import TEST_CPU_S, TEST_IDLE_S, first_run
from ..test_run.test_runner import TestRun, run_tests
from . import environment
from .dependencies import Dependencies
from .interpreter import Interpreter, check_requires, find_interpreter
from .uv_settings import clean_environment

Progress = Callable[[str], None]
ATTEMPTS = 4
LIMITS = Limits(memory=4 << 30, disk=1 << 30, processes=512, cpus=2.0)
T = TypeVar("T")


@dataclass(frozen=True)
class _Attempt:
    """One set of requirements tried: the recipe with its locked packages, and how the suite ran with them."""

    recipe: Recipe
    run: TestRun
    locked: set[str]
    tests: list[str]


class Build:
    """One build in a staging folder of the cache; nothing is visible to others before ``publish_folder``."""

    def __init__(self, cache: Path, staging: Path, progress: Progress, backend: str) -> None:
        self.cache, self.staging, self.progress, self.backend = cache, staging, progress, backend
        self.folder = staging / "snapshot"
        self.tree, self.env = self.folder / "tree", self.folder / "env"
        self.folder.mkdir()
        self.notes: list[str] = []

    def from_source(self, spec: str, options: SnapshotOptions) -> Snapshot:
        """Detect everything, build and measure. Raises SnapshotError."""
        interpreter = find_interpreter(options.python)
        fetched = source.fetch(spec, self.tree, interpreter, self.progress)
        dependencies = Dependencies(interpreter, self.env, self.staging, self.progress, self.notes)
        dependencies.refuse_parts_of_pytest(fetched.name, options.pytest)
        project = self._inspect(fetched, interpreter)
        dependencies.refuse_parts_of_pytest(project.name, options.pytest)
        config = read_config(self.tree)
        layout = detect(self.tree, config, project.top_level, project.name, _named_tests(options, self.tree))
        generated = metadata.generated_files(project, layout.packages, self.tree)
        metadata.write_files(self.tree, generated)
        guess = guess_dependencies(self.tree, project, config, layout, options)
        recipe = _draft(fetched, project, layout, config, interpreter, options, metadata.pack(generated))
        attempt = self._attempts(recipe, project, guess, dependencies)
        return self._publish(attempt.recipe, interpreter, attempt.run)

    def from_recipe(self, recipe: Recipe, places: Sequence[Path]) -> Snapshot:
        """Follow the recipe. Raises SnapshotError when this machine or the package index does not allow it."""
        interpreter = find_interpreter(recipe.python)
        if interpreter.platform != recipe.platform:
            raise SnapshotError(
                f"the snapshot was made for {recipe.platform}, this machine is {interpreter.platform}; use such a "
                f"machine, or generate the tasks again on this one"
            )
        where = source.locate(recipe.source.spec, recipe.source.sha256, places)
        fetched = source.fetch(str(where), self.tree, interpreter, self.progress)
        if fetched.sha256 != recipe.source.sha256:
            raise SourceNotFound(
                f"{recipe.source.spec} has another content now than when the snapshot was made; provide the original "
                f"with ETUDE_SOURCES, or generate the tasks again"
            )
        project = self._inspect(replace(fetched, scm_version=recipe.scm_version), interpreter)
        generated = metadata.generated_files(project, recipe.packages, self.tree)
        metadata.write_files(self.tree, metadata.unpack(recipe.generated, generated))
        dependencies = Dependencies(interpreter, self.env, self.staging, self.progress, self.notes)
        dependencies.install_recipe(recipe.requirements)
        environment.add_project(self.env, interpreter, project)
        self._set_up(recipe.setup_cmds)
        environment.finish(self.env, interpreter)
        self._tidy(recipe)
        return self._publish(recipe, interpreter, None)

    def _inspect(self, fetched: Source, interpreter: Interpreter) -> Project:
        # The source distribution states its Python before its build fails on the wrong one.
        check_requires(interpreter, required_python(self.tree), fetched.name)
        self.progress("building the project's metadata")
        project = metadata.inspect(self.tree, fetched, interpreter, self.staging)
        check_requires(interpreter, project.requires_python, project.name)
        return project

    def _attempts(
        self, recipe: Recipe, project: Project, guess: DependencyGuess, dependencies: Dependencies
    ) -> _Attempt:
        """Try the declared requirements, then with what collection still misses; the last run counts."""
        attempt = self._attempt(recipe, project, guess, guess.tests, dependencies, recipe.setup_cmds)
        for _ in range(ATTEMPTS - 1):
            more = guess.missing(attempt.run, attempt.locked, attempt.tests)
            if not more:
                break
            self.notes.append(f"undeclared, missing when collecting: {', '.join(more)}")
            attempt = self._attempt(attempt.recipe, project, guess, [*attempt.tests, *more], dependencies)
        check_run(attempt.run, recipe.verifier.timeout_s)
        return attempt

    def _attempt(
        self,
        recipe: Recipe,
        project: Project,
        guess: DependencyGuess,
        tests: Sequence[str],
        dependencies: Dependencies,
        set_up: Sequence[str] = (),
    ) -> _Attempt:
        """Resolve, install and run once. Raises SnapshotError when the runtime dependencies cannot be installed."""
        interpreter = dependencies.interpreter
        installed = dependencies.install(guess, tests)
        environment.add_project(self.env, interpreter, project)
        self._set_up(set_up)
        environment.finish(self.env, interpreter)
        plugins = environment.pytest_plugins(self.env, interpreter, usable_options(read_config(self.tree).addopts)[1])
        chosen = recipe.verifier.options
        if "hypothesispytest" in plugins:  # its examples are random otherwise
            chosen = with_words(chosen, ["--hypothesis-seed=0"])
        lines = installed.resolution.lines([project.name])
        verifier = recipe.verifier.model_copy(update={"plugins": plugins, "options": chosen})
        recipe = recipe.model_copy(update={"requirements": lines, "verifier": verifier})
        self._tidy(recipe)
        recipe, run = self._first_run(recipe, interpreter)
        return _Attempt(recipe, run, set(installed.resolution.locked), installed.tests)

    def _first_run(self, recipe: Recipe, interpreter: Interpreter) -> tuple[Recipe, TestRun]:
        """Run the suite; options that nothing defines and tests that hang are dropped."""

        def run(verifier: PytestVerifier) -> TestRun:
            self.progress("baseline: run 1 of 3")
            idle_s = min(TEST_IDLE_S, verifier.timeout_s)
            return self._in_sandbox(
                recipe,
                interpreter,
                lambda sandbox: run_tests(sandbox, verifier, idle_s=idle_s, test_cpu_s=TEST_CPU_S),
            )

        verifier, result = first_run(recipe.verifier, run, self.notes)
        return recipe.model_copy(update={"verifier": verifier}), result

    def _set_up(self, commands: Iterable[str]) -> None:
        """Run the user's own commands in the tree, with the environment on PATH. Raises BuildFailed."""
        path = f"{self.env / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        for command in commands:
            self.progress(f"set-up: {command}")
            process = subprocess.run(
                ["bash", "-c", command],
                cwd=self.tree,
                env=clean_environment({"PATH": path}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if process.returncode:
                raise BuildFailed(
                    f"set-up command `{command}` ended with {process.returncode}: {last_lines(process.stdout)}; "
                    f"repair it"
                )

    def _tidy(self, recipe: Recipe) -> None:
        """Make the tree what every workspace will be: the baseline runs on what agents see."""
        trees.clean(self.tree, frozenset(recipe.packages))
        trees.normalise(self.tree)
        trees.give_to_sandbox(self.tree)

    def _in_sandbox(
        self, recipe: Recipe, interpreter: Interpreter, job: Callable[[Sandbox], Coroutine[Any, Any, T]]
    ) -> T:
        """Run ``job`` in a new sandbox over the tree and wait for its result."""
        layers = snapshot.make_layers(recipe, self.folder, self.cache, interpreter, self.tree)

        async def inside() -> T:
            from ...sandbox.registry import open_sandbox

            sandbox = await open_sandbox(layers, LIMITS, self.backend)
            try:
                return await job(sandbox)
            finally:
                await sandbox.close()

        return _wait(inside())

    def _publish(self, recipe: Recipe, interpreter: Interpreter, first: TestRun | None) -> Snapshot:
        async def job(sandbox: Sandbox) -> Baseline:
            return await measure(sandbox, recipe.verifier, recipe.packages, self.tree, self.progress, first)

        measured = self._in_sandbox(recipe, interpreter, job)
        baseline = measured.model_copy(update={"notes": [*self.notes, *measured.notes]})
        snapshot.save(self.folder, recipe, baseline, interpreter)
        trees.remove(self.folder / "env-unmapped")  # it contains the staging folder's path
        digest = recipe.digest()
        with file_lock(self.cache, f"publish-{digest[:32]}"):
            if snapshot.load(self.cache, digest) is None:
                publish_folder(self.folder, self.cache / "snapshots" / digest)
        loaded = snapshot.load(self.cache, digest)
        if loaded is None:
            raise SnapshotError(
                f"snapshot {digest[:12]} vanished from the cache {self.cache}; make sure that nothing clears it"
            )
        self.progress(f"{recipe.name} {recipe.version}: {len(baseline.passed)} tests pass every time")
        return loaded


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Wait for ``work`` from synchronous code; inside a running event loop, in a separate thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _named_tests(chosen: SnapshotOptions, tree: Path) -> list[str]:
    """Return the test paths among ``test_args``. Raises BadOptions for one that does not exist."""
    paths = [word for word in chosen.test_args if not word.startswith("-")]
    for path in paths:
        if not (tree / path.partition("::")[0]).exists():
            raise BadOptions(f"test_args: {path} is not in the source; give paths relative to its top folder")
    return paths


def _draft(
    fetched: Source,
    project: Project,
    layout: Layout,
    config: PytestConfig,
    interpreter: Interpreter,
    chosen: SnapshotOptions,
    generated: dict[str, str],
) -> Recipe:
    """Return the recipe without what installing decides: the locked packages and the plugins."""
    verifier = PytestVerifier(
        args=list(layout.tests),
        python_path=layout.python_path,
        options=options(config, [word for word in chosen.test_args if word.startswith("-")], chosen.deselect),
        config_file=config.file,
        timeout_s=chosen.timeout_s,
    )
    return Recipe(
        source=SourceRef(kind=fetched.kind, spec=fetched.spec, sha256=fetched.sha256),
        name=project.name,
        version=project.version,
        licence=project.licence,
        scm_version=fetched.scm_version,
        python=interpreter.version,
        platform=interpreter.platform,
        base=base_id(),
        pytest=chosen.pytest,
        requirements=[],
        setup_cmds=list(chosen.setup_cmds),
        packages=dict(layout.packages),
        tests=[path.partition("::")[0] for path in layout.tests],
        verifier=verifier,
        env=dict(chosen.env),
        generated=generated,
    )
