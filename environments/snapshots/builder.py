"""From a source to a Snapshot: fetch, detect, resolve, install, measure, publish; or from a recipe, exactly again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from ...models import PytestVerifier, SnapshotRef
from ..sandbox import Limits
from . import environment, imports, project, requirements, snapshot, source, trees
from .baseline import Baseline, check_run, measure
from .errors import BadOptions, BuildFailed, DependencyFailed, SnapshotError, SourceNotFound, last_lines
from .interpreter import Interpreter, check_requires, find_interpreter
from .layout import Layout, detect
from .locks import cache_folder, file_lock, publish_folder, temporary_folder, write_whole
from .pip import Resolution, bare_python, clean_environment, failed_builds, requirement_name, resolve
from .project import Project
from .pytest_config import PytestConfig, kept_options, options, plugin_requirements, read_config
from .recipe import BUILDER, Recipe, SnapshotOptions, SourceRef, base_id, canonical_json
from .snapshot import Snapshot
from .source import Source
from .testrun import TestRun, run_tests

Progress = Callable[[str], None]
ATTEMPTS = 4
LIMITS = Limits(memory=4 << 30, disk=1 << 30, processes=512, cpus=2.0)
T = TypeVar("T")


def silent(message: str) -> None:
    """No progress."""


def build_snapshot(
    spec: str,
    options: SnapshotOptions = SnapshotOptions(),
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    backend: str = "auto",
) -> Snapshot:
    """The Snapshot of a source, built unless the cache has it (milliseconds then).

    ``spec``: ``pypi:name==version``, ``git+URL@revision``, a folder or an archive. The project's own build and the
    set-up commands run on this machine; its tests run in a sandbox. ``progress`` gets short phase messages. Raises a
    SnapshotError that says what is wrong and the remedy, and SandboxError when no sandbox works.
    """
    home = cache_folder(cache)
    request = source.request_of(spec)
    pointer = home / "requests" / _request_key(request, options) if request else None
    if found := _known(home, pointer):
        return found
    name = pointer.name if pointer else hashlib.sha256(spec.encode()).hexdigest()
    with file_lock(home, f"request-{name[:32]}", lambda: progress("another process builds this snapshot: waiting")):
        if found := _known(home, pointer):
            return found
        with temporary_folder(home) as staging:
            built = _Build(home, staging, progress, backend).from_source(spec, options)
        if pointer:
            write_whole(pointer, built.digest.encode())
    return built


def _request_key(request: str, options: SnapshotOptions) -> str:
    version = find_interpreter(options.python).version if options.python else ".".join(map(str, sys.version_info[:3]))
    parts = [request, options.model_dump(mode="json"), BUILDER, version, base_id(), os.uname().machine]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def _known(home: Path, pointer: Path | None) -> Snapshot | None:
    if pointer is None or not pointer.is_file():
        return None
    return snapshot.load(home, pointer.read_text("ascii"))


def open_snapshot(
    ref: SnapshotRef,
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    sources: Iterable[Path] = (),
    backend: str = "auto",
) -> Snapshot:
    """The Snapshot that a task records: from the cache, else built again from its recipe with the same packages.

    A folder or archive is looked up by content in ``sources`` and in the folders of ``ETUDE_SOURCES``. Raises
    SnapshotError when the recipe cannot be followed here, or gives something else.
    """
    home = cache_folder(cache)
    if found := snapshot.load(home, ref.digest):
        return found
    try:
        recipe = Recipe(**ref.recipe)
    except ValidationError as error:
        raise SnapshotError(
            f"snapshot {ref.digest[:12]} has no recipe that this version reads: {error.errors()[0]['msg']}"
        ) from error
    if recipe.digest() != ref.digest:
        raise SnapshotError(
            f"the recipe of snapshot {ref.digest[:12]} has been changed: its digest is {recipe.digest()[:12]}"
        )
    _check_machine(recipe)
    with file_lock(
        home, f"snapshot-{ref.digest[:32]}", lambda: progress("another process builds this snapshot: waiting")
    ):
        if found := snapshot.load(home, ref.digest):
            return found
        with temporary_folder(home) as staging:
            return _Build(home, staging, progress, backend).from_recipe(recipe, source.source_places(sources))


def _check_machine(recipe: Recipe) -> None:
    here = {"builder": BUILDER, "base": base_id()}
    for what, value in here.items():
        if getattr(recipe, what) != value:
            raise SnapshotError(
                f"the snapshot was made for {what} {getattr(recipe, what)}, here it is {value}: generate anew"
            )


@dataclass(frozen=True)
class _Attempt:
    """One set of requirements tried: what it resolved to and how the suite ran with it."""

    recipe: Recipe
    run: TestRun


class _Build:
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
        layout = detect(self.tree, config, built.top_level, built.name)
        if options.test_args:
            layout = _with_tests(layout, options.test_args, self.tree)
        generated = project.generated_files(built, layout.packages, self.tree)
        project.write_files(self.tree, generated)
        wanted = self._wanted(built, config, layout, options)
        recipe = _draft(found, built, layout, config, interpreter, options, project.pack(generated), self.tree)
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

    def _wanted(self, built: Project, config: PytestConfig, layout: Layout, options: SnapshotOptions) -> _Wanted:
        files = list(imports.test_files(self.tree, layout.tests))
        declared = requirements.declared(self.tree, built.requires_dist, built.extras, built.name)
        own = {*layout.packages, *_local_modules(self.tree, layout.tests)}
        imported = imports.all_imports(files) - own
        base = [
            *requirements.runtime(built.requires_dist),
            f"pytest=={options.pytest}",
            "coverage",
            *options.requirements,
        ]
        tests = [text for text in declared.test if not requirements.is_tool(text) or _serves(text, imported)]
        tests += [text for text in declared.dev if _serves(text, imported)]
        tests += plugin_requirements(config)
        required = imports.required_imports(files) - own
        marked = imports.marked_plugins(files)
        return _Wanted(base, _once(tests), declared, required, marked, built.name)

    def _attempts(
        self, recipe: Recipe, built: Project, wanted: _Wanted, options: SnapshotOptions, interpreter: Interpreter
    ) -> _Attempt:
        """Try the declared requirements, then what collection still misses; the last run that collects wins."""
        python = bare_python(interpreter, self.staging / "bare")
        tests = list(wanted.tests)
        for number in range(ATTEMPTS):
            self.progress("resolving dependencies")
            resolution, tests = self._resolve(python, wanted.base, tests)
            if extra := wanted.unmet(set(resolution.locked), tests):
                self.notes.append(f"undeclared, found by the tests' imports: {', '.join(extra)}")
                resolution, tests = self._resolve(python, wanted.base, [*tests, *extra])
            resolution, tests = self._install(resolution, wanted, tests, interpreter, python)
            environment.add_project(self.folder / "env", interpreter, built)
            if number == 0:
                self._set_up(options.setup_cmds)
            environment.finish(self.folder / "env", interpreter)
            named = kept_options(read_config(self.tree).addopts)[1]
            plugins = environment.pytest_plugins(self.folder / "env", interpreter, named)
            verifier = recipe.verifier.model_copy(update={"plugins": plugins})
            recipe = recipe.model_copy(update={"requirements": resolution.lines([built.name]), "verifier": verifier})
            recipe, run = self._trial(recipe, interpreter)
            more = wanted.missing(run, set(resolution.locked), tests)
            if not more or number == ATTEMPTS - 1:
                check_run(run, verifier.timeout_s)
                return _Attempt(recipe, run)
            self.notes.append(f"undeclared, missing when collecting: {', '.join(more)}")
            tests += more
        raise AssertionError("unreachable")

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
        self, resolution: Resolution, wanted: _Wanted, tests: list[str], interpreter: Interpreter, python: Path
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
            kept = (
                _without_words(recipe.verifier.options, unknown.group(1).split())
                if unknown
                else recipe.verifier.options
            )
            if kept == recipe.verifier.options:
                return recipe, run
            self.notes.append(f"pytest options dropped: {unknown.group(1).strip() if unknown else ''}")
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
                raise BuildFailed(f"set-up command `{command}` ended with {done.returncode}: {last_lines(done.stdout)}")

    def _tidy(self, recipe: Recipe) -> None:
        """The tree as every workspace will have it: what the baseline runs on is what agents see."""
        trees.clean(self.tree, frozenset(recipe.packages))
        trees.normalise(self.tree)
        trees.give_to_sandbox(self.tree)

    def _in_sandbox(self, recipe: Recipe, interpreter: Interpreter, job: Callable[..., Coroutine[Any, Any, T]]) -> T:
        layers = snapshot.make_layers(recipe, self.folder, self.cache, interpreter, self.tree)

        async def inside() -> T:
            from ..sandbox import open_sandbox

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


@dataclass(frozen=True)
class _Wanted:
    """``base`` must install; ``tests`` may be dropped; ``required`` are names the test files import unconditionally."""

    base: list[str]
    tests: list[str]
    declared: requirements.Declared
    required: set[str]
    marked: list[str]
    project: str

    def unmet(self, locked: set[str], tests: Sequence[str]) -> list[str]:
        """Distributions for required imports and marks that nothing in the resolved set serves."""
        names = [name for name in sorted(self.required) if name in imports.DISTRIBUTIONS]
        wanted = [imports.DISTRIBUTIONS[name] for name in names] + self.marked
        have = {*locked, *(requirement_name(text) for text in tests), canonicalize_name(self.project)}
        return _once(text for text in wanted if requirement_name(text) not in have)

    def missing(self, run: TestRun, locked: set[str], tests: Sequence[str]) -> list[str]:
        """Distributions for modules that collection did not find, as far as they are declared or well known."""
        found = []
        for name in sorted(imports.missing_modules([*run.collect_errors.values(), run.cause])):
            declared = [text for text in (*self.declared.test, *self.declared.dev) if _serves(text, {name})]
            found += declared[:1] or ([imports.DISTRIBUTIONS[name]] if name in imports.DISTRIBUTIONS else [])
        have = {*locked, *(requirement_name(text) for text in tests), canonicalize_name(self.project)}
        return _once(text for text in found if requirement_name(text) not in have)


def _once(texts: Iterable[str]) -> list[str]:
    seen: dict[str, str] = {}
    for text in texts:
        seen.setdefault(requirement_name(text), text)
    return list(seen.values())


def _serves(text: str, imported: set[str]) -> bool:
    """Whether a requirement's distribution is the one of an imported name."""
    name = requirement_name(text)
    known = {canonicalize_name(imports.DISTRIBUTIONS.get(module, module).partition("<")[0]) for module in imported}
    return name in known or name.removeprefix("python-") in known


def _local_modules(tree: Path, tests: Iterable[str]) -> set[str]:
    """Names that tests can import because they lie beside them."""
    folders = [tree, *(path for test in tests if (path := tree / test).is_dir())]
    folders += [inner for folder in folders[1:] for inner in folder.rglob("*") if inner.is_dir()]
    return {entry.name.removesuffix(".py") for folder in folders for entry in folder.iterdir()}


def _with_tests(layout: Layout, words: Iterable[str], tree: Path) -> Layout:
    paths = tuple(word for word in words if not word.startswith("-"))
    for path in paths:
        if not (tree / path.partition("::")[0]).exists():
            raise BadOptions(f"test_args: {path} is not in the source")
    return replace(layout, tests=paths) if paths else layout


def _without_words(given: Sequence[str], unwanted: Iterable[str]) -> list[str]:
    """Options whose ``addopts`` lost the words that pytest does not know."""
    import shlex

    gone, found = set(unwanted), []
    for option in given:
        name, _, value = option.partition("=")
        if name == "addopts":
            option = f"addopts={shlex.join(word for word in shlex.split(value) if word not in gone)}"
        found.append(option)
    return found


def _draft(
    found: Source,
    built: Project,
    layout: Layout,
    config: PytestConfig,
    interpreter: Interpreter,
    chosen: SnapshotOptions,
    generated: dict[str, str],
    tree: Path,
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
        licence=built.licence or project.licence_from_text(tree),
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
