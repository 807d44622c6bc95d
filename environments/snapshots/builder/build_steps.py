"""One build of a snapshot in a staging folder: fetch, detect, resolve, install, measure, publish."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import re
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ....errors import BadOptions, BuildFailed, DependencyFailed, SnapshotError, SourceNotFound
from ....models import PytestVerifier
from ...sandbox import Limits
from .. import snapshot
from ..errors import last_lines
from ..project import metadata as project
from ..project.dependency_guess import Wanted, find_wanted
from ..project.layout import Layout, detect
from ..project.metadata import Project
from ..project.pytest_config import PytestConfig, kept_options, options, read_config, with_words, without_words
from ..recipe import Recipe, SnapshotOptions, SourceRef, base_id
from ..snapshot import Snapshot
from ..source import source
from ..source.source import Source
from ..store import trees
from ..store.cache import file_lock, publish_folder
from ..test_run.baseline import Baseline, check_run, measure
from ..test_run.test_runner import TestRun, run_tests
from . import environment
from .interpreter import Interpreter, check_requires, find_interpreter
from .pip import (
    Resolution,
    bare_python,
    clean_environment,
    failed_builds,
    requirement_name,
    resolve,
)

Progress = Callable[[str], None]
ATTEMPTS = 4
LIMITS = Limits(memory=4 << 30, disk=1 << 30, processes=512, cpus=2.0)
T = TypeVar("T")


@dataclass(frozen=True)
class _Attempt:
    """One set of requirements tried: what it resolved to and how the suite ran with it."""

    recipe: Recipe
    run: TestRun
    locked: set[str]
    tests: list[str]


class Build:
    """One build in a staging folder of the cache; nothing is visible to others before ``publish_folder``."""

    def __init__(self, cache: Path, staging: Path, progress: Progress, backend: str) -> None:
        self.cache, self.staging, self.progress, self.backend = cache, staging, progress, backend
        self.folder = staging / "snapshot"
        self.tree = self.folder / "tree"
        self.folder.mkdir()
        self.notes: list[str] = []

    # --- from a source --------------------------------------------------------------------------------------

    def from_source(self, spec: str, options: SnapshotOptions) -> Snapshot:
        """Detect everything. Raises SnapshotError."""
        interpreter = find_interpreter(options.python)
        found = source.fetch(spec, self.tree, interpreter, self.progress)
        self.progress("building the project's metadata")
        built = self._inspect(found, interpreter)
        config = read_config(self.tree)
        layout = detect(self.tree, config, built.top_level, built.name, _named_tests(options, self.tree))
        generated = project.generated_files(built, layout.packages, self.tree)
        project.write_files(self.tree, generated)
        wanted = find_wanted(self.tree, built, config, layout, options)
        recipe = _draft(found, built, layout, config, interpreter, options, project.pack(generated))
        attempt = self._attempts(recipe, built, wanted, options, interpreter)
        return self._publish(attempt.recipe, interpreter, attempt.run)

    def _inspect(self, found: Source, interpreter: Interpreter) -> Project:
        # The sdist says what it needs before its build fails on the wrong Python.
        declared = source.read_pyproject(self.tree).get("project", {}).get("requires-python", "")
        declared = declared or source.read_ini(self.tree / "setup.cfg").get("options", "python_requires", fallback="")
        check_requires(interpreter, str(declared), found.name)
        built = project.inspect(self.tree, found, interpreter, self.staging)
        check_requires(interpreter, built.requires_python, built.name)
        return built

    def _attempts(
        self, recipe: Recipe, built: Project, wanted: Wanted, options: SnapshotOptions, interpreter: Interpreter
    ) -> _Attempt:
        """Try the declared requirements, then with what collection still misses; the last run counts."""
        attempt = self._attempt(recipe, built, wanted, wanted.tests, interpreter, options.setup_cmds)
        for _ in range(ATTEMPTS - 1):
            more = wanted.missing(attempt.run, attempt.locked, attempt.tests)
            if not more:
                break
            self.notes.append(f"undeclared, missing when collecting: {', '.join(more)}")
            attempt = self._attempt(attempt.recipe, built, wanted, [*attempt.tests, *more], interpreter)
        check_run(attempt.run, recipe.verifier.timeout_s)
        return attempt

    def _attempt(
        self,
        recipe: Recipe,
        built: Project,
        wanted: Wanted,
        tests: Sequence[str],
        interpreter: Interpreter,
        set_up: Sequence[str] = (),
    ) -> _Attempt:
        """Resolve, install and run once. Raises SnapshotError when the runtime dependencies cannot be had."""
        python = bare_python(interpreter, self.staging / "bare")
        self.progress("resolving dependencies")
        resolution, kept = self._resolve(python, wanted.base, tests)
        if extra := wanted.unmet(set(resolution.locked), kept):
            self.notes.append(f"undeclared, found in the tests: {', '.join(extra)}")
            resolution, kept = self._resolve(python, wanted.base, [*kept, *extra])
        resolution, kept = self._install(resolution, wanted, kept, interpreter, python)
        env = self.folder / "env"
        environment.add_project(env, interpreter, built)
        self._set_up(set_up)
        environment.finish(env, interpreter)
        plugins = environment.pytest_plugins(env, interpreter, kept_options(read_config(self.tree).addopts)[1])
        chosen = recipe.verifier.options
        if "hypothesispytest" in plugins:  # its examples are random otherwise
            chosen = with_words(chosen, ["--hypothesis-seed=0"])
        verifier = recipe.verifier.model_copy(update={"plugins": plugins, "options": chosen})
        if requirement_name(built.name) in resolution.closure(["pytest"]):
            # The tests cannot run without a second copy, and that copy would show what a task removes.
            raise SnapshotError(
                f"pytest itself runs on {built.name}, so no task can be made of it: choose another source"
            )
        lines = resolution.lines([built.name])
        recipe, run = self._trial(recipe.model_copy(update={"requirements": lines, "verifier": verifier}), interpreter)
        return _Attempt(recipe, run, set(resolution.locked), kept)

    def _resolve(self, python: Path, base: Sequence[str], tests: Sequence[str]) -> tuple[Resolution, list[str]]:
        """Resolve everything together; a test requirement that cannot be resolved is dropped with a note."""
        try:
            return resolve(python, [*base, *tests], self.staging), list(tests)
        except DependencyFailed:
            if not tests:
                raise
        found, kept = resolve(python, base, self.staging), list[str]()
        for text in tests:
            try:
                found = resolve(python, [*base, *kept, text], self.staging)
                kept.append(text)
            except DependencyFailed as error:
                self.notes.append(f"test requirement {text} dropped: {error}")
        return found, kept

    def _install(
        self, resolution: Resolution, wanted: Wanted, tests: list[str], interpreter: Interpreter, python: Path
    ) -> tuple[Resolution, list[str]]:
        """Install the resolved set; test requirements whose packages do not build are dropped with a note."""
        while True:
            lines = resolution.lines([wanted.project])
            self.progress(f"installing {len(lines)} packages")
            result = environment.install(self.folder / "env", interpreter, lines, self.staging)
            if result.ok:
                return resolution, tests
            failed = failed_builds(result.log)
            needed = resolution.closure(requirement_name(text) for text in wanted.base)
            culprits = [text for text in tests if failed & resolution.closure([requirement_name(text)])]
            if not failed or failed & needed or not culprits:
                environment.require(result, ", ".join(sorted(failed & needed or failed)) or "a dependency")
            self.notes.extend(f"test requirement {text} dropped: it does not build" for text in culprits)
            tests = [text for text in tests if text not in culprits]
            resolution, tests = self._resolve(python, wanted.base, tests)

    def _trial(self, recipe: Recipe, interpreter: Interpreter) -> tuple[Recipe, TestRun]:
        """One run of the suite; options of plugins that are not loaded are dropped until pytest accepts the rest."""
        self._tidy(recipe)
        while True:
            self.progress("baseline: run 1 of 3")
            run = self._in_sandbox(recipe, interpreter, _run_once)
            unknown = re.search(
                r"unrecognized arguments: ([^|\n]+)", f"{run.cause}\n{run.output.decode('utf-8', 'replace')}"
            )
            words = unknown.group(1).split() if unknown else []
            kept = without_words(recipe.verifier.options, words)
            if kept == recipe.verifier.options:
                return recipe, run
            self.notes.append(f"pytest options dropped: {' '.join(words)}")
            recipe = recipe.model_copy(update={"verifier": recipe.verifier.model_copy(update={"options": kept})})

    # --- from a recipe --------------------------------------------------------------------------------------

    def from_recipe(self, recipe: Recipe, places: Sequence[Path]) -> Snapshot:
        """Follow the recipe; raises SnapshotError when this machine or the world does not allow it."""
        interpreter = find_interpreter(recipe.python)
        if interpreter.platform != recipe.platform:
            raise SnapshotError(f"the snapshot was made for {recipe.platform}, this machine is {interpreter.platform}")
        where = source.locate(recipe.source.spec, recipe.source.sha256, places)
        found = source.fetch(str(where), self.tree, interpreter, self.progress)
        if found.sha256 != recipe.source.sha256:
            raise SourceNotFound(f"{recipe.source.spec} has another content now than when the snapshot was made")
        self.progress("building the project's metadata")
        built = self._inspect(replace(found, scm_version=recipe.scm_version), interpreter)
        generated = project.generated_files(built, recipe.packages, self.tree)
        project.write_files(self.tree, project.unpack(recipe.generated, generated))
        self.progress(f"installing {len(recipe.requirements)} packages")
        result = environment.install(self.folder / "env", interpreter, recipe.requirements, self.staging)
        environment.require(result, "a locked dependency")
        environment.add_project(self.folder / "env", interpreter, built)
        self._set_up(recipe.setup_cmds)
        environment.finish(self.folder / "env", interpreter)
        self._tidy(recipe)
        return self._publish(recipe, interpreter, None)

    # --- both -----------------------------------------------------------------------------------------------

    def _set_up(self, commands: Iterable[str]) -> None:
        """Run the person's own commands in the tree, with the environment on PATH."""
        path = f"{self.folder / 'env' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        for command in commands:
            self.progress(f"set-up: {command}")
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.tree,
                env=clean_environment({"PATH": path}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if done.returncode:
                raise BuildFailed(
                    f"set-up command `{command}` ended with {done.returncode}: {last_lines(done.stdout)}; repair it"
                )

    def _tidy(self, recipe: Recipe) -> None:
        """The tree as every workspace will have it: what the baseline runs on is what agents see."""
        trees.clean(self.tree, frozenset(recipe.packages))
        trees.normalise(self.tree)
        trees.give_to_sandbox(self.tree)

    def _in_sandbox(self, recipe: Recipe, interpreter: Interpreter, job: Callable[..., Coroutine[Any, Any, T]]) -> T:
        layers = snapshot.make_layers(recipe, self.folder, self.cache, interpreter, self.tree)

        async def inside() -> T:
            from ...sandbox.registry import open_sandbox

            sandbox = await open_sandbox(layers, LIMITS, self.backend)
            try:
                return await job(sandbox, recipe)
            finally:
                await sandbox.close()

        return _run(inside())

    def _publish(self, recipe: Recipe, interpreter: Interpreter, first: TestRun | None) -> Snapshot:
        async def job(sandbox: Any, recipe: Recipe) -> Baseline:
            return await measure(sandbox, recipe.verifier, recipe.packages, self.tree, self.progress, first)

        measured = self._in_sandbox(recipe, interpreter, job)
        baseline = measured.model_copy(update={"notes": [*self.notes, *measured.notes]})
        snapshot.save(self.folder, recipe, baseline, interpreter)
        trees.remove(self.folder / "env-unmapped")  # it holds the staging folder's path
        digest = recipe.digest()
        with file_lock(self.cache, f"publish-{digest[:32]}"):
            if snapshot.load(self.cache, digest) is None:
                publish_folder(self.folder, self.cache / "snapshots" / digest)
        loaded = snapshot.load(self.cache, digest)
        if loaded is None:
            raise SnapshotError(
                f"snapshot {digest[:12]} vanished from the cache {self.cache}: is another process clearing it?"
            )
        self.progress(f"{recipe.name} {recipe.version}: {len(baseline.passed)} tests pass every time")
        return loaded


async def _run_once(sandbox: Any, recipe: Recipe) -> TestRun:
    return await run_tests(sandbox, recipe.verifier)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for ``work`` from synchronous code, also inside a running event loop (in a thread of its own then)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _named_tests(chosen: SnapshotOptions, tree: Path) -> list[str]:
    """The test paths among ``test_args``. Raises BadOptions for one that is not there."""
    paths = [word for word in chosen.test_args if not word.startswith("-")]
    for path in paths:
        if not (tree / path.partition("::")[0]).exists():
            raise BadOptions(f"test_args: {path} is not in the source")
    return paths


def _draft(
    found: Source,
    built: Project,
    layout: Layout,
    config: PytestConfig,
    interpreter: Interpreter,
    chosen: SnapshotOptions,
    generated: dict[str, str],
) -> Recipe:
    """The recipe but for what installing decides: the locked packages and the plugins."""
    verifier = PytestVerifier(
        args=list(layout.tests),
        python_path=layout.python_path,
        options=options(config, [word for word in chosen.test_args if word.startswith("-")], chosen.deselect),
        config_file=config.file,
        timeout_s=chosen.timeout_s,
    )
    return Recipe(
        source=SourceRef(kind=found.kind, spec=found.spec, sha256=found.sha256),
        name=built.name,
        version=built.version,
        licence=built.licence,
        scm_version=found.scm_version,
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
