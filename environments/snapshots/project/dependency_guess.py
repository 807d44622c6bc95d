"""Distributions that a suite needs: declared ones first, then known ones that its imports name; nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ..builder.packages import requirement_name
from ..recipe import LATER_PYTEST, SnapshotOptions
from ..test_run.test_runner import TestRun
from . import imports
from .layout import Layout
from .metadata import Project
from .pytest_config import PytestConfig, plugin_requirements
from .requirements import Declared, declared, is_tool, runtime

SUBTESTS = "pytest-subtests"


@dataclass(frozen=True)
class DependencyGuess:
    """Requirements of one project.

    ``base`` must install; ``tests`` may be dropped; ``required`` are names that test files import unconditionally;
    ``marked`` are plugins whose marks or fixtures the tests use.
    """

    base: list[str]
    tests: list[str]
    declared: Declared
    required: set[str]
    marked: list[str]
    project: str
    pytest: str = ""
    """Exact version of pytest in ``base``; empty where a specification decides."""

    def unmet(self, locked: set[str], tests: Sequence[str]) -> list[str]:
        """Return distributions for required imports and marks that the resolved set ``locked`` does not provide."""
        names = [name for name in sorted(self.required) if name in imports.DISTRIBUTIONS]
        return self._without([imports.DISTRIBUTIONS[name] for name in names] + self.marked, locked, tests)

    def missing(self, run: TestRun, locked: set[str], tests: Sequence[str]) -> list[str]:
        """Return declared or well-known distributions for modules that collection did not find."""
        candidates: list[str] = []
        for name in sorted(imports.missing_modules([*run.collect_errors.values(), run.cause])):
            matching = [text for text in self.declared.all if _provides(text, {name})]
            well_known = [imports.DISTRIBUTIONS[name]] if name in imports.DISTRIBUTIONS else []
            candidates += matching[:1] or well_known
        return self._without(candidates, locked, tests)

    def _without(self, candidates: Iterable[str], locked: set[str], tests: Sequence[str]) -> list[str]:
        """Return the candidates, each name once, that are neither locked nor required already."""
        present = {*locked, *(requirement_name(text) for text in tests), canonicalize_name(self.project)}
        return unique(text for text in candidates if requirement_name(text) not in present)


def guess_dependencies(
    tree: Path, project: Project, config: PytestConfig, layout: Layout, options: SnapshotOptions
) -> DependencyGuess:
    """Read the tree for the requirements of the project and of its tests."""
    files = list(imports.test_files(tree, layout.tests))
    stated = declared(tree, project.requires_dist, project.extras, project.name)
    local = {*layout.packages, *_local_modules(tree, layout.tests)}
    imported = imports.all_imports(files) - local
    marked = imports.marked_plugins(files)
    version = pytest_version(stated, config, marked, options)
    base = [*runtime(project.requires_dist), f"pytest=={version}", "coverage", *options.requirements]
    tests = [text for text in stated.test if not is_tool(text) or _provides(text, imported)]
    tests += [text for text in (*stated.dev, *stated.other) if _provides(text, imported)]
    tests += plugin_requirements(config)
    if version == LATER_PYTEST:  # it has this plugin's fixture, and the plugin itself changes pytest when it is loaded
        marked = [name for name in marked if name != SUBTESTS]
        tests = [text for text in tests if requirement_name(text) != SUBTESTS]
    required = imports.required_imports(files) - local
    return DependencyGuess(base, unique(tests), stated, required, marked, project.name, version)


def pytest_version(stated: Declared, config: PytestConfig, marked: Sequence[str], options: SnapshotOptions) -> str:
    """Return the user's version of pytest, else the default one unless the project needs the later one."""
    if "pytest" in options.model_fields_set:
        return options.pytest
    accepted = SpecifierSet(f">={config.minversion}" if re.match(r"[\d.]+$", config.minversion) else "") & stated.pytest
    too_old = config.native or options.pytest not in accepted or SUBTESTS in marked
    return LATER_PYTEST if too_old and LATER_PYTEST in accepted else options.pytest


def unique(texts: Iterable[str]) -> list[str]:
    """Return the first requirement for each distribution."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(requirement_name(text), text)
    return list(first.values())


def _provides(text: str, imported: set[str]) -> bool:
    """Return whether a requirement's distribution provides one of the imported names."""
    name = requirement_name(text)
    distributions = (imports.DISTRIBUTIONS.get(module, module) for module in imported)
    names = {requirement_name(text) or canonicalize_name(text) for text in distributions}
    return name in names or name.removeprefix("python-") in names


def _local_modules(tree: Path, tests: Iterable[str]) -> set[str]:
    """Return the names that tests can import because the files lie beside them."""
    folders = [tree, *(path for test in tests if (path := tree / test).is_dir())]
    folders += [inner for folder in folders[1:] for inner in folder.rglob("*") if inner.is_dir()]
    return {entry.name.removesuffix(".py") for folder in folders for entry in folder.iterdir()}
