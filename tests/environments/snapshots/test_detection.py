"""What the tests need and how pytest is called, read from a project's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.snapshots.builder.pip import Locked, PipResult, Resolution, failed_builds
from etude.environments.snapshots.project import imports, requirements
from etude.environments.snapshots.project.pytest_config import kept_options, options, plugin_requirements, read_config


def declared(tree: Path, *requires: str, extras: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    found = requirements.declared(tree, requires, extras, "thing")
    return list(found.test), list(found.dev)


def test_extras_are_read_with_their_other_conditions(tmp_path: Path) -> None:
    requires = ['a; extra == "test"', 'b>=2; (python_version > "3") and extra == "test"', "c", 'd; extra == "docs"']
    assert declared(tmp_path, *requires, extras=("test", "docs")) == (["a", 'b>=2; python_version > "3"'], [])


def test_an_extra_that_names_the_project_is_expanded(tmp_path: Path) -> None:
    requires = [
        'thing[io]; extra == "tests"',
        'x; extra == "tests"',
        'yaml; extra == "io"',
        'thing[tests]; extra == "dev"',
    ]
    assert declared(tmp_path, *requires, extras=("tests", "io", "dev")) == (["yaml", "x"], ["yaml", "x"])


def test_dependency_groups_include_each_other(tmp_path: Path) -> None:
    text = '[dependency-groups]\ntest = ["a", {include-group = "base"}]\n'
    text += 'base = ["b", {include-group = "test"}]\ndev = ["c"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert declared(tmp_path) == (["a", "b"], ["c"])


def test_poetry_groups_keep_their_lower_bounds(tmp_path: Path) -> None:
    text = '[tool.poetry.group.test.dependencies]\na = "^1.2"\nb = "*"\nc = {version = ">=3"}\npython = "^3.8"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert declared(tmp_path)[0] == ["a>=1.2", "b", "c>=3"]


def test_requirement_files_are_followed_and_in_files_preferred(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "tests.in").write_text("a>=1  # why\n-r more.txt\n-e .\n--index-url x\npytest\n")
    (tmp_path / "requirements" / "tests.txt").write_text("a==1.0.0\n")
    (tmp_path / "requirements" / "more.txt").write_text("b\nhttps://example.invalid/x.whl\nc @ file:///x\n")
    (tmp_path / "requirements-dev.txt").write_text("black\nd\n")
    assert declared(tmp_path) == (["a>=1", "b"], ["black", "d"])


def test_tox_deps_without_factors_and_substitutions(tmp_path: Path) -> None:
    text = "[testenv]\ndeps =\n    a\n    py27: mock\n    {env:X}\n    -r{toxinidir}/reqs.txt\n    pytest-cov\n"
    (tmp_path / "tox.ini").write_text(text)
    (tmp_path / "reqs.txt").write_text("b\n")
    assert declared(tmp_path)[0] == ["a", "b"]


def test_tools_are_told_from_libraries() -> None:
    assert [requirements.is_tool(name) for name in ("mypy", "sphinx-rtd", "types-six", "hypothesis", "freezegun")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_addopts_lose_what_disturbs_a_measurement() -> None:
    words = "-ra -q -vv --cov=x --cov-report term-missing -n auto --strict-markers --maxfail=2 -x -p no:randomly "
    words += "-p my_plugin --import-mode=importlib --doctest-report ndiff --tb short --benchmark-disable tests"
    assert kept_options(words.split()) == (["--import-mode=importlib", "--doctest-report", "ndiff"], ["my_plugin"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = --import-mode=importlib -v\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "-v"]\n'),
        ("tox.ini", "[pytest]\naddopts = --import-mode=importlib -v\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --import-mode=importlib -v\n"),
    ],
)
def test_configuration_files_in_pytests_order(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "setup.cfg").write_text(text if name == "setup.cfg" else "[tool:pytest]\naddopts = --wrong\n")
    config = read_config(tmp_path)
    assert config.file == name
    assert options(config, ["--run-slow"], ["tests/a.py::b c"]) == [
        "addopts=--import-mode=importlib --run-slow '--deselect=tests/a.py::b c'"
    ]


def test_no_configuration_needs_no_options(tmp_path: Path) -> None:
    config = read_config(tmp_path)
    assert (config.file, options(config, [], [])) == (None, [])


def test_required_plugins_are_installed_not_demanded(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nrequired_plugins = pytest-xyz>=1 pytest-cov\nasyncio_mode = auto\n")
    config = read_config(tmp_path)
    assert plugin_requirements(config) == ["pytest-xyz>=1", "pytest-cov", "pytest-asyncio"]
    assert options(config, [], []) == ["required_plugins="]


def test_imports_are_read_with_their_weight(tmp_path: Path) -> None:
    text = "import os, yaml\nfrom . import x\ntry:\n    import numpy\nexcept ImportError:\n    pass\n"
    text += 'def test_a(mocker):\n    import six\npytest.importorskip("attr.x")\n'
    (tmp_path / "test_a.py").write_text(text)
    (tmp_path / "broken.py").write_text("def (\n")
    files = sorted(tmp_path.iterdir())
    assert imports.required_imports(files) == {"yaml"}
    assert imports.all_imports(files) == {"yaml", "numpy", "six", "attr"}
    assert imports.marked_plugins(files) == ["pytest-mock"]
    assert imports.missing_modules(["E   ModuleNotFoundError: No module named 'yaml.x'"]) == {"yaml"}


def test_who_pulled_a_package_in() -> None:
    def locked(name: str, *requires: str) -> Locked:
        return Locked(name, "1", "0" * 64, requires)

    found = Resolution(
        {
            lock.name: lock
            for lock in (locked("a", "b>=1"), locked("b", 'C; python_version > "3"', 'A; extra == "dev"'), locked("c"))
        }
    )
    assert found.closure(["A"]) == {"a", "b", "c"}
    assert found.closure(["b"]) == {"b", "c"}
    assert found.lines(["B"]) == [f"{name}==1 --hash=sha256:{'0' * 64}" for name in ("a", "c")]


def test_pips_list_of_versions_is_cut_to_the_last() -> None:
    versions = ", ".join(f"1.{number}" for number in range(99))
    log = f"ERROR: Could not find a version that satisfies the requirement x==9 (from versions: {versions})\n"
    told = PipResult(False, log).errors()
    assert told.endswith("(from versions: ..., 1.93, 1.94, 1.95, 1.96, 1.97, 1.98)")
    assert PipResult(False, "ERROR: nothing (from versions: 1.0, 2.0)").errors().endswith("(from versions: 1.0, 2.0)")


def test_failed_builds_are_named() -> None:
    log = "  ERROR: Failed building wheel for greenlet\nFailed to build Foo_Bar\n"
    assert failed_builds(log) == {"greenlet", "foo-bar"}
