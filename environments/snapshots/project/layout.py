"""Layout of a project: the places of its packages and its tests, read from its files alone."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....errors import NoTests, SnapshotError
from ..source.project_files import read_ini, read_pyproject
from .pytest_config import PytestConfig

PREFIXES = ("src", ".", "lib", "python", "source")
NOT_PACKAGES = frozenset(
    "tests test testing docs doc examples example benchmarks benchmark scripts tools setup conftest noxfile tasks "
    "build dist bin ci release fabfile".split()
)
TEST_FOLDERS = ("tests", "test", "testing", "src/tests", "src/test")


@dataclass(frozen=True)
class Layout:
    """``packages`` maps import names to their place in the tree (``src/pkg``, ``module.py``); ``tests`` are paths."""

    packages: Mapping[str, str]
    tests: tuple[str, ...]

    @property
    def python_path(self) -> list[str]:
        """Return the folders that make the packages importable, ``src`` before the root."""
        return sorted({os.path.dirname(root) or "." for root in self.packages.values()}, key=lambda p: (p == ".", p))


def detect(
    tree: Path, config: PytestConfig, wheel_names: Sequence[str], project: str, named_tests: Sequence[str] = ()
) -> Layout:
    """Return the layout; ``wheel_names`` are the top-level names of the built wheel, empty without one.

    ``named_tests`` are test paths and node ids that the user chose. Raises SnapshotError when no package is found, and
    NoTests when no test is found.
    """
    packages = _from_wheel(tree, wheel_names) if wheel_names else _scan(tree)
    if not packages:
        built = f" that its build provides ({', '.join(wheel_names)})" if wheel_names else ""
        raise SnapshotError(f"{project} has no Python package{built} in its tree; name another source")
    tests = list(named_tests) or _tests(tree, config, packages)
    if not tests:
        raise NoTests(f"{project} holds no tests (source distributions often omit them); try git+URL@TAG")
    return Layout(packages, tuple(tests))


def _prefixes(tree: Path) -> list[str]:
    """Return the folders that may hold top-level packages, those that the project configures first."""
    tool = read_pyproject(tree).get("tool", {})
    setting = tool.get("setuptools", {}).get("package-dir", {}).get("")
    setting = setting or tool.get("setuptools", {}).get("packages", {})
    where = setting.get("find", {}).get("where") if isinstance(setting, dict) else setting
    folders = [where] if isinstance(where, str) else list(where or []) if isinstance(setting, dict) else []
    poetry = tool.get("poetry", {}).get("packages", [])
    folders += [entry["from"] for entry in poetry if isinstance(entry, dict) and "from" in entry]
    ini = read_ini(tree / "setup.cfg").get("options", "package_dir", fallback="")
    folders += [
        value.strip() for line in ini.splitlines() for key, eq, value in [line.partition("=")] if eq and not key.strip()
    ]
    return list(dict.fromkeys([*(os.path.normpath(path) for path in folders), *PREFIXES]))


def _from_wheel(tree: Path, names: Sequence[str]) -> dict[str, str]:
    real = [name for name in names if name not in NOT_PACKAGES] or list(names)
    packages: dict[str, str] = {}
    for name in real:
        places = [f"{prefix}/{name}{suffix}" for prefix in _prefixes(tree) for suffix in ("", ".py")]
        if place := next((place for place in places if _holds_code(tree / place)), None):
            packages[name] = os.path.normpath(place)
    return packages


def _holds_code(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.rglob("*.py")))


def _scan(tree: Path) -> dict[str, str]:
    """Return the packages of a project that builds no wheel: in ``src`` first, else at the root."""
    for prefix in _prefixes(tree):
        folder = tree / prefix
        if not folder.is_dir():
            continue
        packages = {}
        for entry in sorted(folder.iterdir()):
            name = entry.stem if entry.suffix == ".py" else entry.name
            if (
                not name.isidentifier()
                or name in NOT_PACKAGES
                or name.startswith(("test_", "_"))
                or name.endswith("_test")
            ):
                continue
            if (entry / "__init__.py").is_file() or (entry.suffix == ".py" and entry.is_file()):
                packages[name] = os.path.normpath(f"{prefix}/{entry.name}")
        if packages:
            return packages
    return {}


def _tests(tree: Path, config: PytestConfig, packages: Mapping[str, str]) -> list[str]:
    patterns = config.python_files or ["test_*.py", "*_test.py"]
    configured = [path for path in config.testpaths if (tree / path).exists() and _has_tests(tree / path, patterns)]
    if configured and not any(os.path.normpath(path) == "." for path in configured):
        return [os.path.normpath(path) for path in configured]
    nested = [f"{root}/{name}" for root in packages.values() for name in ("tests", "test", "testing")]
    folders = [path for path in (*TEST_FOLDERS, *nested) if _has_tests(tree / path, patterns)]
    folders = [path for path in folders if not any(_below(path, other) for other in folders)]
    roots = {".", *(os.path.dirname(root) or "." for root in packages.values())}
    modules = [
        os.path.normpath(f"{root}/{entry.name}")
        for root in sorted(roots)
        for entry in sorted((tree / root).iterdir())
        if entry.is_file() and _matches(entry.name, patterns)
    ]
    if places := list(dict.fromkeys([*folders, *modules])):
        return places
    # unittest accepts tests/testthing.py, which pytest takes only when it is named.
    loose = [path for folder in (*TEST_FOLDERS, *nested) for path in sorted((tree / folder).glob("**/test*.py"))]
    return [path.relative_to(tree).as_posix() for path in loose]


def _below(path: str, other: str) -> bool:
    return path != other and path.startswith(other + "/")


def _has_tests(path: Path, patterns: Sequence[str]) -> bool:
    if path.is_file():
        return True
    return path.is_dir() and any(_matches(file.name, patterns) for file in path.rglob("*.*"))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
