"""Requirements that a project declares for its tests."""

from __future__ import annotations

from pathlib import Path

from etude.environments.snapshots.project import requirements


def declared(tree: Path, *requires: str, extras: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    result = requirements.declared(tree, requires, extras, "thing")
    return list(result.test), list(result.dev)


def test_declared_keeps_the_other_conditions_of_an_extra(tmp_path: Path) -> None:
    requires = ['a; extra == "test"', 'b>=2; (python_version > "3") and extra == "test"', "c", 'd; extra == "docs"']
    assert declared(tmp_path, *requires, extras=("test", "docs")) == (["a", 'b>=2; python_version > "3"'], [])


def test_declared_expands_an_extra_that_names_the_project(tmp_path: Path) -> None:
    requires = [
        'thing[io]; extra == "tests"',
        'x; extra == "tests"',
        'yaml; extra == "io"',
        'thing[tests]; extra == "dev"',
    ]
    assert declared(tmp_path, *requires, extras=("tests", "io", "dev")) == (["yaml", "x"], ["yaml", "x"])


def test_declared_follows_the_includes_of_dependency_groups(tmp_path: Path) -> None:
    text = '[dependency-groups]\ntest = ["a", {include-group = "base"}]\nbase = ["b"]\ndev = ["c"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert declared(tmp_path) == (["a", "b"], ["c"])


def test_declared_skips_a_dependency_group_when_it_is_not_valid(tmp_path: Path) -> None:
    text = '[dependency-groups]\ntest = ["a", {include-group = "base"}]\n'
    text += 'base = ["b", {include-group = "test"}]\ntests = [{include-group = "none"}]\ndev = ["c"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert declared(tmp_path) == ([], ["c"])


def test_declared_keeps_the_lower_bounds_of_poetry_groups(tmp_path: Path) -> None:
    text = '[tool.poetry.group.test.dependencies]\na = "^1.2"\nb = "*"\nc = {version = ">=3"}\npython = "^3.8"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert declared(tmp_path)[0] == ["a>=1.2", "b", "c>=3"]


def test_declared_follows_requirement_files_and_prefers_in_files(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "tests.in").write_text("a>=1  # why\n-r more.txt\n-e .\n--index-url x\npytest\n")
    (tmp_path / "requirements" / "tests.txt").write_text("a==1.0.0\n")
    (tmp_path / "requirements" / "more.txt").write_text("b\nhttps://example.invalid/x.whl\nc @ file:///x\n")
    (tmp_path / "requirements-dev.txt").write_text("black\nd\n")
    assert declared(tmp_path) == (["a>=1", "b"], ["black", "d"])


def test_declared_reads_tox_deps_without_factors_and_substitutions(tmp_path: Path) -> None:
    text = "[testenv]\ndeps =\n    a\n    py27: mock\n    {env:X}\n    -r{toxinidir}/reqs.txt\n    pytest-cov\n"
    (tmp_path / "tox.ini").write_text(text)
    (tmp_path / "reqs.txt").write_text("b\n")
    assert declared(tmp_path)[0] == ["a", "b"]


def test_declared_finds_the_versions_of_pytest_that_the_tests_need(tmp_path: Path) -> None:
    assert str(requirements.declared(tmp_path, [], [], "thing").pytest) == ""
    (tmp_path / "requirements-dev.txt").write_text("pytest>=7\n")
    assert str(requirements.declared(tmp_path, [], [], "thing").pytest) == ">=7"
    (tmp_path / "pyproject.toml").write_text('[dependency-groups]\ntests = ["a", "pytest >=9,<10"]\n')
    assert str(requirements.declared(tmp_path, [], [], "thing").pytest) == "<10,>=9"


def test_declared_keeps_what_other_extras_and_groups_and_files_list(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("c\n")
    (tmp_path / "pyproject.toml").write_text('[dependency-groups]\nbench = ["b"]\n')
    stated = requirements.declared(tmp_path, ['a; extra == "socks"'], ["socks"], "thing")
    assert (stated.test, stated.dev, stated.other) == ((), (), ("a", "b", "c"))


def test_is_tool_distinguishes_tools_from_libraries() -> None:
    assert all(requirements.is_tool(name) for name in ("mypy", "sphinx-rtd", "types-six"))
    assert not any(requirements.is_tool(name) for name in ("hypothesis", "freezegun"))
