"""Layouts: the places of packages and tests in every common shape of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.snapshots.project.layout import Layout, detect
from etude.environments.snapshots.project.pytest_config import read_config
from etude.errors import NoTests, SnapshotError


def make(tree: Path, *names: str, **texts: str) -> None:
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    for name, text in texts.items():
        (tree / name.replace("__", ".")).write_text(text)


def layout(tree: Path, *wheel: str) -> Layout:
    return detect(tree, read_config(tree), wheel, "thing")


@pytest.mark.parametrize(
    ("files", "wheel", "packages", "python_path", "tests"),
    [
        (["src/a/__init__.py", "tests/test_a.py"], ["a"], {"a": "src/a"}, ["src"], ["tests"]),
        (["src/a/__init__.py", "tests/test_a.py"], [], {"a": "src/a"}, ["src"], ["tests"]),
        (["a/__init__.py", "a/tests/test_a.py"], ["a"], {"a": "a"}, ["."], ["a/tests"]),
        (["a.py", "test_a.py", "setup.py"], ["a"], {"a": "a.py"}, ["."], ["test_a.py"]),
        (["a.py", "test_a.py", "setup.py"], [], {"a": "a.py"}, ["."], ["test_a.py"]),
        (["a/__init__.py", "testing/test_x.py", "docs/conf.py"], ["a"], {"a": "a"}, ["."], ["testing"]),
        (["lib/a/__init__.py", "test/test_x.py"], ["a"], {"a": "lib/a"}, ["lib"], ["test"]),
        (["a/__init__.py", "b.py", "tests/test_x.py"], ["a", "b"], {"a": "a", "b": "b.py"}, ["."], ["tests"]),
        (["a/__init__.py", "tests/__init__.py", "tests/test_x.py"], ["a", "tests"], {"a": "a"}, ["."], ["tests"]),
        (["a/__init__.py", "tests/testa.py"], ["a"], {"a": "a"}, ["."], ["tests/testa.py"]),
        (["ns/a/__init__.py", "tests/test_x.py"], ["ns"], {"ns": "ns"}, ["."], ["tests"]),
    ],
)
def test_detect_finds_packages_and_tests(
    tmp_path: Path,
    files: list[str],
    wheel: list[str],
    packages: dict[str, str],
    python_path: list[str],
    tests: list[str],
) -> None:
    make(tmp_path, *files)
    detected = layout(tmp_path, *wheel)
    assert (detected.packages, detected.python_path, list(detected.tests)) == (packages, python_path, tests)


def test_detect_uses_testpaths_when_they_contain_tests(tmp_path: Path) -> None:
    make(tmp_path, "a/__init__.py", "checks/test_x.py", "tests/test_y.py", "docs/index.rst")
    make(tmp_path, pytest__ini="[pytest]\ntestpaths = checks docs\n")
    assert list(layout(tmp_path, "a").tests) == ["checks"]


def test_detect_uses_python_files_as_patterns_of_test_files(tmp_path: Path) -> None:
    make(tmp_path, "a/__init__.py", "tests/check_x.py")
    make(tmp_path, pytest__ini="[pytest]\npython_files = check_*.py\n")
    assert list(layout(tmp_path, "a").tests) == ["tests"]


def test_detect_uses_the_configured_folder_of_packages(tmp_path: Path) -> None:
    make(tmp_path, "code/a/__init__.py", "tests/test_x.py")
    make(tmp_path, pyproject__toml='[tool.setuptools.package-dir]\n"" = "code"\n')
    assert layout(tmp_path, "a").packages == {"a": "code/a"}


def test_detect_reports_missing_tests_and_missing_packages(tmp_path: Path) -> None:
    make(tmp_path, "a/__init__.py")
    with pytest.raises(NoTests, match="holds no tests"):
        layout(tmp_path, "a")
    with pytest.raises(SnapshotError, match="no Python package that its build provides"):
        layout(tmp_path, "other")
