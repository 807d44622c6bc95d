"""One build of a snapshot in a staging folder: fetch, detect, resolve, install, measure, publish."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
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
from ..project.pytest_config import PytestConfig, options, read_config, refused_plugins, usable_options, with_words
from ..recipe import Recipe, SnapshotOptions, SourceRef, base_id
from ..snapshot import Snapshot
from ..source import source
from ..source.clones import HOST, Clones
from ..source.project_files import required_python
from ..source.repositories import export_commit
from ..source.source import Source
from ..store import trees
from ..test_run.baseline import Baseline, check_run, measure
from ..test_run.first_run import TEST_CPU_S, TEST_IDLE_S, first_run
from ..test_run.test_runner import TestRun, run_tests
from . import environment
from .dependencies import Dependencies
from .interpreter import Interpreter, check_requires, find_interpreter
from .uv_command import clean_environment

Progress = Callable[[str], None]
ATTEMPTS = 4
LIMITS = Limits(memory=4 << 30, disk=1 << 30, processes=512, cpus=2.0)
T = TypeVar("T")


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
        if project.name != fetched.name:
            dependencies.refuse_parts_of_pytest(project.name, options.pytest)
        config = read_config(self.tree)
        layout = detect(self.tree, config, project.top_level, project.name, _named_tests(options, self.tree))
        generated = metadata.generated_files(project, layout.packages, self.tree)
        metadata.write_files(self.tree, generated)
        guess = guess_dependencies(self.tree, project, config, layout, options)
        if guess.pytest != options.pytest:
            dependencies.refuse_parts_of_pytest(project.name, guess.pytest)
        options = options.model_copy(update={"pytest": guess.pytest})
        recipe = _draft(fetched, project, layout, config, interpreter, options, metadata.pack(generated))
        recipe, run = self._settle(recipe, project, guess, dependencies)
        return self._publish(recipe, interpreter, run)

    def from_recipe(self, recipe: Recipe, places: Sequence[Path]) -> Snapshot:
        """Follow the recipe. Raises SnapshotError when this machine or the package index does not allow it."""
        interpreter = find_interpreter(recipe.python)
        if interpreter.platform != recipe.platform:
            raise SnapshotError(
                f"the snapshot was made for {recipe.platform}, this machine is {interpreter.platform}; use such a "
                f"machine, or generate the tasks again on this one"
            )
        fetched = self._clone(recipe)
        if fetched is None:
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
        dependencies = Dependencies(interpreter, self.env, self.staging, self.progress, self.notes, recipe.as_of)
        dependencies.install_recipe(recipe.requirements)
        environment.add_project(self.env, interpreter, project)
        self._set_up(recipe.setup_cmds)
        environment.finish(self.env, interpreter)
        self._tidy(recipe)
        return self._publish(recipe, interpreter, None)

    def _clone(self, recipe: Recipe) -> Source | None:
        """Write the tree of a specified snapshot from a clone of its repository, None for other snapshots."""
        address = re.fullmatch(rf"git\+{HOST}/([\w.-]+/[\w.-]+)@([0-9a-f]+)", recipe.source.spec)
        if recipe.measured or address is None:
            return None
        exported = export_commit(Clones(progress=self.progress).find(address[1]), address[2], self.tree)
        trees.normalise(self.tree)
        return Source("git", recipe.source.spec, recipe.name, trees.tree_hash(self.tree), exported.version)

    def _inspect(self, fetched: Source, interpreter: Interpreter) -> Project:
        # The source distribution states its Python before its build fails on the wrong one.
        check_requires(interpreter, required_python(self.tree), fetched.name)
        self.progress("building the project's metadata")
        try:
            project = metadata.inspect(self.tree, fetched, interpreter, self.staging)
        except BuildFailed as error:
            static = metadata.read_static(self.tree)
            if static is None:
                raise
            self.notes.append(f"{error}; its tree and PKG-INFO are used as they are")
            project = static
        check_requires(interpreter, project.requires_python, project.name)
        return project

    def _settle(
        self, recipe: Recipe, project: Project, guess: DependencyGuess, dependencies: Dependencies
    ) -> tuple[Recipe, TestRun]:
        """Install the declared requirements, then what collection still misses; return the recipe and the last run.

        Raises SnapshotError when the runtime dependencies cannot be installed, or the last run proves nothing.
        """
        interpreter, tests = dependencies.interpreter, guess.tests
        for attempt in range(ATTEMPTS):
            installed = dependencies.install(guess, tests)
            environment.add_project(self.env, interpreter, project)
            self._set_up(recipe.setup_cmds if attempt == 0 else [])
            environment.finish(self.env, interpreter)
            addopts = read_config(self.tree).addopts
            plugins = environment.pytest_plugins(self.env, interpreter, usable_options(addopts)[1])
            project_plugins = environment.own_plugins(project)
            plugins = [name for name in plugins if name not in refused_plugins(addopts) | project_plugins]
            if project_plugins and attempt == 0:
                self.notes.append(
                    f"the project's own pytest plugins are not loaded: {', '.join(sorted(project_plugins))}"
                )
            chosen = recipe.verifier.options
            if "hypothesispytest" in plugins:  # its examples are random otherwise
                chosen = with_words(chosen, ["--hypothesis-seed=0"])
            lines = installed.resolution.lines([project.name])
            verifier = recipe.verifier.model_copy(update={"plugins": plugins, "options": chosen})
            recipe = recipe.model_copy(update={"requirements": lines, "verifier": verifier})
            self._tidy(recipe)
            recipe, run = self._first_run(recipe, interpreter)
            more = guess.missing(run, set(installed.resolution.locked), installed.tests)
            if not more or attempt == ATTEMPTS - 1:
                break
            self.notes.append(f"undeclared, missing when collecting: {', '.join(more)}")
            tests = [*installed.tests, *more]
        check_run(run, recipe.verifier.timeout_s)
        return recipe, run

    def _first_run(self, recipe: Recipe, interpreter: Interpreter) -> tuple[Recipe, TestRun]:
        """Run the suite; options that nothing defines and tests that hang are dropped."""

        async def run(verifier: PytestVerifier) -> TestRun:
            async with self._sandbox(recipe, interpreter) as sandbox:
                idle_s = min(TEST_IDLE_S, verifier.timeout_s)
                return await run_tests(sandbox, verifier, idle_s=idle_s, test_cpu_s=TEST_CPU_S, tracebacks=True)

        def wait(verifier: PytestVerifier) -> TestRun:
            self.progress("baseline: run 1 of 3")
            return _wait(run(verifier))

        verifier, result = first_run(recipe.verifier, wait, self.notes)
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

    def _sandbox(self, recipe: Recipe, interpreter: Interpreter) -> AbstractAsyncContextManager[Sandbox]:
        """Open a new sandbox over the tree for an ``async with`` block."""
        from ...sandbox.registry import opened_sandbox

        layers = snapshot.make_layers(recipe, self.folder, self.cache, interpreter, self.tree)
        return opened_sandbox(layers, LIMITS, self.backend)

    def _publish(self, recipe: Recipe, interpreter: Interpreter, first: TestRun | None) -> Snapshot:
        if not recipe.measured:
            return snapshot.publish(self.cache, self.folder, recipe, Baseline(passed=[], notes=self.notes), interpreter)
        open_sandbox = partial(self._sandbox, recipe, interpreter)
        measured = _wait(measure(open_sandbox, recipe.verifier, recipe.packages, self.tree, self.progress, first))
        baseline = measured.model_copy(update={"notes": [*self.notes, *measured.notes]})
        trees.remove(self.folder / "env-unmapped")  # it contains the staging folder's path
        loaded = snapshot.publish(self.cache, self.folder, recipe, baseline, interpreter)
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
