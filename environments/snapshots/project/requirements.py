"""Requirements that a project declares for its tests: extras, dependency groups, requirements files, tox."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dependency_groups import DependencyGroupResolver
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ..source.project_files import read_ini, read_pyproject
from .pytest_config import UNWANTED_PLUGINS

_TEST_NAME = re.compile(r"^(unit-?)?(test|tests|testing|pytest|tests?-.*|.*-tests?)$")
_DEV_NAME = re.compile(r"^(dev|develop|development|dev-.*|all|full|complete)$")
# Development tools, which projects list beside the tests' requirements; installed only when the tests import them.
_TOOLS = re.compile(
    r"^(tox|nox|pre-commit|black|ruff|flake8.*|isort|mypy|pyright|pylint|pyflakes|pycodestyle|pydocstyle|bandit|twine|build"
    r"|wheel|setuptools|setuptools-scm|pip|pip-tools|uv|hatch.*|flit.*|poetry.*|sphinx.*|furo|mkdocs.*|.*-sphinx-theme|myst.*"
    r"|docutils-stubs|bump.*|towncrier|check-manifest|coveralls|codecov|coverage|cython|ipython|ipdb|jupyter.*|notebook"
    r"|interrogate|pyupgrade|vulture|safety|commitizen|semantic-release|python-semantic-release|types-.*|.*-stubs|invoke"
    r"|virtualenv|tox-.*|readme-renderer|changelog.*|blurb|asv)$"
)
_FILES = (
    "requirements-test*", "requirements_test*", "test-requirements*", "test_requirements*", "requirements.test*",
    "requirements/test*", "requirements/*-test*", "tests/requirements*", "test/requirements*", "testing/requirements*",
)  # fmt: skip
_DEV_FILES = ("requirements-dev*", "requirements_dev*", "dev-requirements*", "dev_requirements*", "requirements/dev*")
_OTHER_FILES = ("requirements.txt",)


@dataclass(frozen=True)
class Declared:
    """Requirements as written: those for the tests, those for development at large, and others."""

    test: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    """Those of all other extras, groups and files."""
    pytest: SpecifierSet = field(default_factory=SpecifierSet)
    """Versions of pytest with which the tests run."""

    @property
    def all(self) -> tuple[str, ...]:
        """Return all requirements, those for the tests first."""
        return (*self.test, *self.dev, *self.other)


def declared(tree: Path, requires_dist: Sequence[str], extras: Sequence[str], project: str) -> Declared:
    """Return the requirements that the tree declares for tests and development, except for ``project`` itself."""
    by_kind: dict[str, list[str]] = {"test": [], "dev": [], "other": []}
    extra_groups, other_groups = _extras(requires_dist, extras, project), _groups(read_pyproject(tree))
    for name, requirements in [*extra_groups.items(), *other_groups.items()]:
        by_kind[_kind(name)].extend(requirements)
    for kind, patterns in (("test", _FILES), ("dev", _DEV_FILES), ("other", _OTHER_FILES)):
        for path in _requirement_files(tree, patterns):
            by_kind[kind].extend(read_requirements(path))
    by_kind["test"].extend(_tox(tree))
    tests_require = read_ini(tree / "setup.cfg").get("options", "tests_require", fallback="")
    by_kind["test"].extend(re.split(r"[\n;]", tests_require))
    test, dev, other = (tuple(_usable(texts, project)) for texts in by_kind.values())
    return Declared(test, dev, other, _pytest_versions(by_kind["test"]) or _pytest_versions(by_kind["dev"]))


def _pytest_versions(texts: Iterable[str]) -> SpecifierSet:
    """Return the conditions of the first requirement of pytest that applies."""
    for text in texts:
        requirement = _requirement(text.strip())
        if requirement and requirement.name.lower() == "pytest" and requirement.specifier:
            return requirement.specifier
    return SpecifierSet()


def _kind(name: str) -> str:
    name = canonicalize_name(name)
    return "test" if _TEST_NAME.match(name) else "dev" if _DEV_NAME.match(name) else "other"


def _usable(texts: Iterable[str], project: str) -> Iterator[str]:
    """Yield the valid requirements, each name once, except for pytest's own and plugins that are never loaded."""
    excluded = {"pytest", "pluggy", "iniconfig", "coverage", canonicalize_name(project), *UNWANTED_PLUGINS}
    for text in texts:
        requirement = _requirement(text.strip())
        if requirement is None or requirement.url or canonicalize_name(requirement.name) in excluded:
            continue
        excluded.add(canonicalize_name(requirement.name))
        yield str(requirement)


def is_tool(text: str) -> bool:
    """Return whether a requirement is a development tool rather than a library that tests use."""
    return bool(_TOOLS.match(canonicalize_name(Requirement(text).name)))


def runtime(requires_dist: Sequence[str]) -> list[str]:
    """Return the requirements that apply without any extra."""
    return [text for text in requires_dist if "extra ==" not in text.replace("'", '"')]


def extra_requirements(requires_dist: Sequence[str], extra: str, project: str) -> list[str]:
    """Return the requirements of one extra of a project."""
    return _extras(requires_dist, [extra], project)[canonicalize_name(extra)]


def _extras(requires_dist: Sequence[str], extras: Sequence[str], project: str) -> dict[str, list[str]]:
    """Return each extra's requirements, with ``project[other]`` expanded; other markers stay in the text."""
    direct: dict[str, list[str]] = {}
    for extra in extras:
        chosen = direct.setdefault(canonicalize_name(extra), [])
        for text in requires_dist:
            requirement = _requirement(text)
            if requirement is None or requirement.marker is None or "extra" not in text:
                continue
            marker = str(requirement.marker)
            if extra in _named_extras(marker):
                requirement.marker = None
                conditions = _without_extra(marker)
                chosen.append(f"{requirement}; {conditions}" if conditions else str(requirement))

    def expand(name: str, above: frozenset[str]) -> list[str]:
        expanded: list[str] = []
        for text in direct.get(name, []):
            requirement = _requirement(text)
            if requirement and canonicalize_name(requirement.name) == canonicalize_name(project):
                inner = {canonicalize_name(other) for other in requirement.extras} - above
                expanded += [item for other in sorted(inner) for item in expand(other, above | {other})]
            else:
                expanded.append(text)
        return expanded

    return {name: expand(name, frozenset({name})) for name in direct}


def _named_extras(marker: str) -> set[str]:
    return set(re.findall(r"extra == [\"']([^\"']+)[\"']", marker))


def _without_extra(marker: str) -> str:
    """Return the marker's other conditions, for the usual ``(...) and extra == "x"``; empty when it has no other."""
    others = re.sub(r"\s*(and\s+)?extra == [\"'][^\"']+[\"']\s*(and)?", "", marker).strip()
    return others[1:-1] if others.startswith("(") and others.endswith(")") and others.count("(") == 1 else others


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _groups(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return dependency groups (PEP 735), and those in the older tables of PDM, uv, Poetry and Hatch."""
    groups = _standard_groups(project.get("dependency-groups", {}))
    tool = project.get("tool", {})
    for name, entries in tool.get("pdm", {}).get("dev-dependencies", {}).items():
        groups.setdefault(name, []).extend(entries)
    groups.setdefault("dev", []).extend(tool.get("uv", {}).get("dev-dependencies", []))
    poetry = tool.get("poetry", {})
    groups["dev"].extend(_poetry(poetry.get("dev-dependencies", {})))
    for name, table in poetry.get("group", {}).items():
        groups.setdefault(name, []).extend(_poetry(table.get("dependencies", {})))
    for name, table in tool.get("hatch", {}).get("envs", {}).items():
        entries = [*table.get("dependencies", []), *table.get("extra-dependencies", [])]
        groups.setdefault("dev" if name == "default" else name, []).extend(entries)
    return groups


def _standard_groups(tables: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the valid groups of ``[dependency-groups]``; a group that breaks PEP 735 has no meaning to any tool."""
    groups: dict[str, list[str]] = {}
    for name in tables:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            groups[name] = [str(requirement) for requirement in DependencyGroupResolver(tables).resolve(name)]
    return groups


def _poetry(table: Mapping[str, Any]) -> list[str]:
    """Return the requirements of a Poetry table; of a caret or tilde range only the lower bound is used."""
    requirements = []
    for name, value in table.items():
        version = value.get("version", "*") if isinstance(value, dict) else value
        optional = isinstance(value, dict) and value.get("optional")
        if name.lower() == "python" or not isinstance(version, str) or optional:
            continue
        if version == "*":
            requirements.append(name)
        elif version[0] in "^~" and version[:2] != "~=":
            requirements.append(f"{name}>={version.lstrip('^~=')}")
        else:
            requirements.append(f"{name}{'==' if version[0].isdigit() else ''}{version}")
    return requirements


def _requirement_files(tree: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the matching files; an ``.in`` file replaces the pins that were compiled from it."""
    files = {
        path for pattern in patterns for path in tree.glob(pattern) if path.suffix in (".txt", ".in") and path.is_file()
    }
    return sorted(path for path in files if path.suffix == ".in" or path.with_suffix(".in") not in files)


def read_requirements(path: Path, above: frozenset[Path] = frozenset()) -> list[str]:
    """Return the plain requirements of a pip file; ``-r`` is followed, other options, URLs and folders are not."""
    requirements: list[str] = []
    try:
        lines = path.read_text("utf-8", "replace").replace("\\\n", " ").splitlines()
    except OSError:
        return []
    for line in lines:
        text = re.sub(r"(^|\s)#.*$", "", line).strip()
        include = re.match(r"^(-r|--requirement)[ =]*(\S+)$", text)
        if include:
            other = (path.parent / include[2]).resolve()
            if other not in above:
                requirements += read_requirements(other, above | {other})
        elif text and not text.startswith("-"):
            requirements.append(re.sub(r"\s--hash=\S+", "", text).strip())
    return requirements


def _tox(tree: Path) -> list[str]:
    """Return ``deps`` of tox's plain ``[testenv]``, except for lines with a factor (``py27: ...``) or substitution."""
    text = read_ini(tree / "tox.ini").get("testenv", "deps", fallback="")
    text = text or read_ini(tree / "setup.cfg").get("testenv", "deps", fallback="")
    requirements: list[str] = []
    for line in text.splitlines():
        entry = re.sub(r"(^|\s)#.*$", "", line).strip()
        entry = re.sub(r"^\{toxinidir\}/", "", entry)
        include = re.match(r"^-r\s*(?:\{toxinidir\}/)?(\S+)$", entry)
        if include and not Path(include[1]).is_absolute() and ".." not in include[1]:
            requirements += read_requirements(tree / include[1])
        elif entry and not entry.startswith(("-", "{", ".")) and not re.match(r"^[\w,!-]+\s*:", entry):
            requirements.append(entry)
    return requirements
