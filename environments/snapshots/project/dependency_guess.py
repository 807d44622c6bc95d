"""Which distributions a suite needs: declared ones first, known ones that its imports name last, guesses never."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from ..builder.pip import requirement_name
from ..recipe import SnapshotOptions
from ..test_run.test_runner import TestRun
from . import imports
from .layout import Layout
from .metadata import Project
from .pytest_config import PytestConfig, plugin_requirements
from .requirements import Declared, declared, is_tool, runtime


def find_wanted(tree: Path, built: Project, config: PytestConfig, layout: Layout, options: SnapshotOptions) -> Wanted:
    """Read the tree for everything that its tests say they need."""
    files = list(imports.test_files(tree, layout.tests))
    told = declared(tree, built.requires_dist, built.extras, built.name)
    own = {*layout.packages, *_local_modules(tree, layout.tests)}
    imported = imports.all_imports(files) - own
    base = [*runtime(built.requires_dist), f"pytest=={options.pytest}", "coverage", *options.requirements]
    tests = [text for text in told.test if not is_tool(text) or _serves(text, imported)]
    tests += [text for text in told.dev if _serves(text, imported)]
    tests += plugin_requirements(config)
    required = imports.required_imports(files) - own
    return Wanted(base, once(tests), told, required, imports.marked_plugins(files), built.name)


@dataclass(frozen=True)
class Wanted:
    """``base`` must install; ``tests`` may be dropped; ``required`` are names the test files import unconditionally."""

    base: list[str]
    tests: list[str]
    declared: Declared
    required: set[str]
    marked: list[str]
    project: str

    def unmet(self, locked: set[str], tests: Sequence[str]) -> list[str]:
        """Distributions for required imports and marks that nothing in the resolved set serves."""
        names = [name for name in sorted(self.required) if name in imports.DISTRIBUTIONS]
        wanted = [imports.DISTRIBUTIONS[name] for name in names] + self.marked
        have = {*locked, *(requirement_name(text) for text in tests), canonicalize_name(self.project)}
        return once(text for text in wanted if requirement_name(text) not in have)

    def missing(self, run: TestRun, locked: set[str], tests: Sequence[str]) -> list[str]:
        """Distributions for modules that collection did not find, as far as they are declared or well known."""
        found = []
        for name in sorted(imports.missing_modules([*run.collect_errors.values(), run.cause])):
            declared = [text for text in (*self.declared.test, *self.declared.dev) if _serves(text, {name})]
            found += declared[:1] or ([imports.DISTRIBUTIONS[name]] if name in imports.DISTRIBUTIONS else [])
        have = {*locked, *(requirement_name(text) for text in tests), canonicalize_name(self.project)}
        return once(text for text in found if requirement_name(text) not in have)


def once(texts: Iterable[str]) -> list[str]:
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
