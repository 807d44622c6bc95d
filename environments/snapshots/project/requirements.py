"""What a project declares its tests to need: extras, dependency groups, requirements files, tox."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ..source.source import read_ini, read_pyproject
from .pytest_config import UNWANTED_PLUGINS

_TEST_NAME = re.compile(r"^(unit-?)?(test|tests|testing|pytest|tests?-.*|.*-tests?)$")
_DEV_NAME = re.compile(r"^(dev|develop|development|dev-.*|all|full|complete)$")
# What projects list beside their tests' needs; kept only when the tests import it.
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


@dataclass(frozen=True)
class Declared:
    """Requirements as written: those for the tests, and those for development at large."""

    test: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()


def declared(tree: Path, requires_dist: Sequence[str], extras: Sequence[str], project: str) -> Declared:
    """Everything the tree declares, without tools that no test needs; ``project`` itself is left out."""
    found: dict[str, list[str]] = {"test": [], "dev": []}
    extra_groups, other_groups = _extras(requires_dist, extras, project), _groups(read_pyproject(tree))
    for name, requirements in [*extra_groups.items(), *other_groups.items()]:
        if kind := _kind(name):
            found[kind].extend(requirements)
    for kind, patterns in (("test", _FILES), ("dev", _DEV_FILES)):
        for path in _requirement_files(tree, patterns):
            found[kind].extend(read_requirements(path))
    found["test"].extend(_tox(tree))
    tests_require = read_ini(tree / "setup.cfg").get("options", "tests_require", fallback="")
    found["test"].extend(re.split(r"[\n;]", tests_require))
    return Declared(tuple(_plain(found["test"], project)), tuple(_plain(found["dev"], project)))


def _kind(name: str) -> str | None:
    name = canonicalize_name(name)
    return "test" if _TEST_NAME.match(name) else "dev" if _DEV_NAME.match(name) else None


def _plain(texts: Iterable[str], project: str) -> Iterator[str]:
    """Readable requirements, once each, without what is pinned anyway (pytest) and plugins that are never loaded."""
    seen: set[str] = set()
    for text in texts:
        try:
            requirement = Requirement(text.strip())
        except InvalidRequirement:
            continue
        name = canonicalize_name(requirement.name)
        pinned_here = name in ("pytest", "pluggy", "iniconfig", "coverage")
        if (
            name in seen
            or pinned_here
            or name == canonicalize_name(project)
            or requirement.url
            or name in UNWANTED_PLUGINS
        ):
            continue
        seen.add(name)
        yield str(requirement)


def is_tool(text: str) -> bool:
    """Whether a requirement is a development tool rather than a library of the tests."""
    return bool(_TOOLS.match(canonicalize_name(Requirement(text).name)))


def runtime(requires_dist: Sequence[str]) -> list[str]:
    """Requirements that hold without any extra."""
    return [text for text in requires_dist if "extra ==" not in text.replace("'", '"')]


def _extras(requires_dist: Sequence[str], extras: Sequence[str], project: str) -> dict[str, list[str]]:
    """Extra -> its requirements, with ``project[other]`` expanded; the interpreter's own markers stay in the text."""
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
                rest = _without_extra(marker)
                chosen.append(f"{requirement}; {rest}" if rest else str(requirement))

    def expand(name: str, above: frozenset[str]) -> list[str]:
        found: list[str] = []
        for text in direct.get(name, []):
            requirement = _requirement(text)
            if requirement and canonicalize_name(requirement.name) == canonicalize_name(project):
                inner = {canonicalize_name(other) for other in requirement.extras} - above
                found += [item for other in sorted(inner) for item in expand(other, above | {other})]
            else:
                found.append(text)
        return found

    return {name: expand(name, frozenset({name})) for name in direct}


def _named_extras(marker: str) -> set[str]:
    return set(re.findall(r"extra == [\"']([^\"']+)[\"']", marker))


def _without_extra(marker: str) -> str:
    """The marker's other conditions, for the usual ``(...) and extra == "x"``; empty when there are none."""
    rest = re.sub(r"\s*(and\s+)?extra == [\"'][^\"']+[\"']\s*(and)?", "", marker).strip()
    return rest[1:-1] if rest.startswith("(") and rest.endswith(")") and rest.count("(") == 1 else rest


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _groups(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """PEP 735 groups, and what uv, PDM, Poetry and Hatch called so before."""
    found: dict[str, list[str]] = {}
    tables = project.get("dependency-groups", {})
    for name in tables:
        found[f"{name}"] = _group(tables, name, frozenset({name}))
    tool = project.get("tool", {})
    for name, entries in tool.get("pdm", {}).get("dev-dependencies", {}).items():
        found.setdefault(name, []).extend(entries)
    found.setdefault("dev", []).extend(tool.get("uv", {}).get("dev-dependencies", []))
    poetry = tool.get("poetry", {})
    found["dev"].extend(_poetry(poetry.get("dev-dependencies", {})))
    for name, table in poetry.get("group", {}).items():
        found.setdefault(name, []).extend(_poetry(table.get("dependencies", {})))
    for name, table in tool.get("hatch", {}).get("envs", {}).items():
        entries = [*table.get("dependencies", []), *table.get("extra-dependencies", [])]
        found.setdefault("dev" if name == "default" else name, []).extend(entries)
    return found


def _group(tables: Mapping[str, Any], name: str, above: frozenset[str]) -> list[str]:
    found: list[str] = []
    for entry in tables.get(name, []):
        if isinstance(entry, str):
            found.append(entry)
        elif isinstance(entry, dict) and (inner := entry.get("include-group")) and inner not in above:
            found += _group(tables, inner, above | {inner})
    return found


def _poetry(table: Mapping[str, Any]) -> list[str]:
    """Poetry's version language as far as a lower bound goes; carets and tildes keep only that."""
    found = []
    for name, value in table.items():
        version = value.get("version", "*") if isinstance(value, dict) else value
        if (
            name.lower() == "python"
            or not isinstance(version, str)
            or (isinstance(value, dict) and value.get("optional"))
        ):
            continue
        if version == "*":
            found.append(name)
        elif version[0] in "^~" and version[:2] != "~=":
            found.append(f"{name}>={version.lstrip('^~=')}")
        else:
            found.append(f"{name}{'==' if version[0].isdigit() else ''}{version}")
    return found


def _requirement_files(tree: Path, patterns: Sequence[str]) -> list[Path]:
    """Matching files; an ``.in`` file is taken instead of the pins that were compiled from it."""
    found = {
        path for pattern in patterns for path in tree.glob(pattern) if path.suffix in (".txt", ".in") and path.is_file()
    }
    return sorted(path for path in found if path.suffix == ".in" or path.with_suffix(".in") not in found)


def read_requirements(path: Path, above: frozenset[Path] = frozenset()) -> list[str]:
    """The plain requirements of a pip file; ``-r`` is followed, other options, addresses and folders are not."""
    found: list[str] = []
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
                found += read_requirements(other, above | {other})
        elif text and not text.startswith("-"):
            found.append(re.sub(r"\s--hash=\S+", "", text).strip())
    return found


def _tox(tree: Path) -> list[str]:
    """``deps`` of tox's plain ``[testenv]``; lines for a factor (``py27: ...``) and substitutions are skipped."""
    text = read_ini(tree / "tox.ini").get("testenv", "deps", fallback="")
    text = text or read_ini(tree / "setup.cfg").get("testenv", "deps", fallback="")
    found: list[str] = []
    for line in text.splitlines():
        entry = re.sub(r"(^|\s)#.*$", "", line).strip()
        entry = re.sub(r"^\{toxinidir\}/", "", entry)
        include = re.match(r"^-r\s*(?:\{toxinidir\}/)?(\S+)$", entry)
        if include and not Path(include[1]).is_absolute() and ".." not in include[1]:
            found += read_requirements(tree / include[1])
        elif entry and not entry.startswith(("-", "{", ".")) and not re.match(r"^[\w,!-]+\s*:", entry):
            found.append(entry)
    return found
