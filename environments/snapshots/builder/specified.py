"""Snapshots of commits in environments that a public data set specifies: one environment serves many commits.

Nothing is detected and no suite is measured: the data set states the Python version, the packages and how tests are
run, and each of its rows brings the tests that decide. What is installed is built once for a specification, at one
commit of the project, and hard-linked into the Snapshot of every other commit. A project with compiled modules is built
again for each commit.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.version import Version

from ....errors import BuildFailed
from ....models import PytestVerifier, UnittestVerifier
from .. import snapshot
from ..project import metadata
from ..project.dependency_guess import DependencyGuess, unique
from ..project.metadata import Project
from ..project.pytest_config import options, read_config, usable_options
from ..project.requirements import Declared, extra_requirements, read_requirements, runtime
from ..recipe import Recipe, SourceRef, base_id, canonical_json
from ..snapshot import Snapshot
from ..source import repositories
from ..source.clones import HOST
from ..source.source import Source
from ..store import trees
from ..store.cache import cache_folder, file_lock, publish_folder, temporary_folder, write_whole
from ..test_run.baseline import Baseline
from . import environment
from .dependencies import Dependencies
from .interpreter import OLDEST, Interpreter, find_interpreter
from .specification import BuiltEnvironment, Specification

Progress = Callable[[str], None]


def build_commit(
    specification: Specification,
    repository: Path,
    commit: str,
    setup_commit: str,
    *,
    cache: Path | None = None,
    progress: Progress = lambda message: None,
) -> tuple[Snapshot, BuiltEnvironment]:
    """Return the Snapshot of ``commit`` in the clone ``repository``, and the environment that it uses.

    ``setup_commit`` is the commit at which the shared environment is built. Raises a subclass of SnapshotError.
    """
    home = cache_folder(cache)
    build = _Build(specification, repository, _interpreter(specification.python), home, progress)
    folder, built = build.environment(setup_commit)
    if built.compiled and commit != setup_commit:
        folder, built = build.environment(commit)
    pointer = home / "requests" / hashlib.sha256(f"{folder.name} {commit}".encode()).hexdigest()
    if pointer.is_file() and (cached := snapshot.load(home, pointer.read_text("ascii"))):
        return cached, built
    with temporary_folder(home) as staging:
        published = build.publish(built, folder, commit, staging / "snapshot")
    write_whole(pointer, published.digest.encode())
    return published, built


@functools.cache
def _interpreter(version: str) -> Interpreter:
    return find_interpreter(max(version, ".".join(map(str, OLDEST)), key=Version))


@dataclass(frozen=True)
class _Build:
    """Builds from one specification and one clone."""

    specification: Specification
    repository: Path
    interpreter: Interpreter
    home: Path
    """The cache."""
    progress: Progress

    def environment(self, commit: str) -> tuple[Path, BuiltEnvironment]:
        """Return the folder of the installed environment and its record; it is built unless the cache holds it."""
        identity = [self.specification.key(), commit, self.interpreter.version, base_id()]
        target = self.home / "environments" / hashlib.sha256(canonical_json(identity).encode()).hexdigest()
        record = target / "environment.json"
        if not record.is_file():
            lock = f"environment-{target.name[:32]}"
            with file_lock(self.home, lock, lambda: self.progress("waiting for another build")):
                if not record.is_file():
                    with temporary_folder(self.home) as staging:
                        self._install(commit, staging)
                        publish_folder(staging / "environment", target)
        return target, BuiltEnvironment(**json.loads(record.read_text("utf-8")))

    def _install(self, commit: str, staging: Path) -> None:
        """Build the project at ``commit`` and install what it needs into ``staging/environment``."""
        started = time.monotonic()
        folder, tree, notes = staging / "environment", staging / "tree", list[str]()
        folder.mkdir()
        self.progress(f"{self.specification.repo} {self.specification.version}: building at {commit[:12]}")
        project = self._project(commit, staging, notes)
        dependencies = Dependencies(
            self.interpreter, folder / "env", staging, self.progress, notes, self.specification.as_of
        )
        needed = [*runtime(project.requires_dist), "coverage"]
        is_pytest = project.name == "pytest"
        needed += [] if is_pytest or self.specification.program else ["pytest"]
        stated = [*self.specification.requirements]
        for path in self.specification.requirement_files:
            if (tree / path).is_file():
                stated += read_requirements(tree / path)
                break
        for extra in self.specification.extras:
            stated += extra_requirements(project.requires_dist, extra, project.name)
        if is_pytest:  # a tool that needs pytest would bring the copy that the workspace replaces
            needed.remove("coverage")
        guess = DependencyGuess(needed, stated, Declared((), ()), set(), [], project.name)
        installed = dependencies.install(guess, unique(stated))
        environment.add_project(folder / "env", self.interpreter, project)
        environment.finish(folder / "env", self.interpreter)
        packages = dict(self.specification.packages) or _packages(project, tree)
        named = usable_options(read_config(tree).addopts)[1]
        plugins = environment.pytest_plugins(folder / "env", self.interpreter, named)
        size = sum((folder / "env" / path).lstat().st_size for path in trees.files_of(folder / "env"))
        built = BuiltEnvironment(
            name=project.name,
            version=project.version,
            licence=project.licence,
            lines=installed.resolution.lines([project.name]),
            packages=packages,
            plugins=[name for name in plugins if not (is_pytest and name == "pytester")] + ["pytester"] * is_pytest,
            generated=_generated(project, packages, tree, folder),
            notes=notes,
            seconds=round(time.monotonic() - started, 1),
            bytes=size,
        )
        (folder / "environment.json").write_text(json.dumps(asdict(built)), "utf-8")

    def _project(self, commit: str, staging: Path, notes: list[str]) -> Project:
        """Return the project's metadata at ``commit``, built from the edited tree; the tree stays in ``staging``."""
        tree = staging / "tree"
        exported = repositories.export_commit(self.repository, commit, tree)
        name = self.specification.repo.partition("/")[2]
        edited = staging / "edited"
        shutil.copytree(tree, edited, symlinks=True)
        notes += [problem for command in self.specification.edits if (problem := _edit(edited, command))]
        source = Source("git", exported.spec, name, "", exported.version or self.specification.version)
        with_date = {"UV_EXCLUDE_NEWER": self.specification.as_of} if self.specification.as_of else {}
        try:
            return metadata.inspect(edited, source, self.interpreter, staging, with_date)
        except BuildFailed as error:
            notes.append(f"the project's own build fails ({error}); its tree is used as it is")
            info = f"{name.replace('-', '_')}-{self.specification.version}.dist-info"
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {self.specification.version}\n".encode()
            files = {f"{info}/METADATA": text, f"{info}/INSTALLER": b"etude\n"}
            return Project(name, self.specification.version, dist_info=files)

    def publish(self, built: BuiltEnvironment, shared: Path, commit: str, folder: Path) -> Snapshot:
        """Write the commit's tree beside the shared environment and publish both as a Snapshot."""
        folder.mkdir()
        tree = folder / "tree"
        repositories.export_commit(self.repository, commit, tree)
        trees.normalise(tree)
        content = trees.tree_hash(tree)
        generated = {path: (shared / "generated" / path).read_bytes() for path in built.generated}
        metadata.write_files(tree, {path: data for path, data in generated.items() if not (tree / path).exists()})
        config = read_config(tree)
        recipe = Recipe(
            source=SourceRef(kind="git", spec=f"git+{HOST}/{self.specification.repo}@{commit}", sha256=content),
            name=built.name,
            version=self.specification.version,
            licence=built.licence,
            scm_version=built.version,
            python=self.interpreter.version,
            platform=self.interpreter.platform,
            base=base_id(),
            pytest=next(
                (line.partition("==")[2].split()[0] for line in built.lines if line.startswith("pytest==")), ""
            ),
            requirements=built.lines,
            packages=built.packages,
            tests=[],
            verifier=_verifier(
                self.specification, built, config.file, options(config, self.specification.arguments, ())
            ),
            env=dict(self.specification.env),
            generated=built.generated,
            measured=False,
            as_of=self.specification.as_of,
        )
        trees.link_tree(shared / "env", folder / "env")
        trees.clean(tree, frozenset(recipe.packages))
        trees.normalise(tree)
        trees.give_to_sandbox(tree)
        return snapshot.publish(self.home, folder, recipe, Baseline(passed=[], notes=built.notes), self.interpreter)


def _generated(project: Project, packages: dict[str, str], tree: Path, folder: Path) -> dict[str, str]:
    files = metadata.generated_files(project, packages, tree)
    metadata.write_files(folder / "generated", files)
    return metadata.pack(files)


def _edit(tree: Path, command: str) -> str:
    """Run a ``sed -i EXPRESSION FILE...`` on files of the tree alone; return why it was not done, else ''."""
    words = shlex.split(command)
    files = words[3:]
    outside = [file for file in files if file.startswith(("/", "-")) or ".." in file.split("/")]
    if words[:2] != ["sed", "-i"] or not files or outside:
        return f"the edit `{command}` is left out: it is not `sed -i EXPRESSION FILE` on files of the project"
    # In its sandbox mode sed neither runs commands nor reads or writes other files.
    done = subprocess.run(["sed", "--sandbox", *words[1:]], cwd=tree, capture_output=True, check=False)
    return f"the edit `{command}` failed: {done.stderr.decode('utf-8', 'replace').strip()}" if done.returncode else ""


def _packages(project: Project, tree: Path) -> dict[str, str]:
    """Return the import names that the build provides, with their places in the tree."""
    places: dict[str, str] = {}
    for name in project.top_level or (project.name.replace("-", "_").lower(),):
        for path in (f"src/{name}", f"src/{name}.py", name, f"{name}.py", f"lib/{name}"):
            if (tree / path).exists():
                places[name] = path
                break
    if not places:
        raise BuildFailed(f"{project.name} has no package in its tree; state its places in the specification")
    return places


def _verifier(
    specification: Specification, built: BuiltEnvironment, config_file: str | None, pytest_options: list[str]
) -> PytestVerifier:
    roots = sorted({path.rpartition("/")[0] or "." for path in built.packages.values()}, key=lambda p: (p == ".", p))
    if specification.program:
        return UnittestVerifier(program=specification.program, options=list(specification.arguments), python_path=roots)
    return PytestVerifier(
        plugins=built.plugins, python_path=roots, options=pytest_options, config_file=config_file, timeout_s=600.0
    )
