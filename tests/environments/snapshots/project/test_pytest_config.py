"""A project's pytest configuration, and the part of it that a measured run uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.snapshots.project.pytest_config import (
    options,
    plugin_requirements,
    read_config,
    refused_plugins,
    usable_options,
)


def test_usable_options_drops_what_disturbs_a_measurement() -> None:
    words = "-ra -q -vv --cov=x --cov-report term-missing -n auto --strict-markers --maxfail=2 -x -p no:randomly "
    words += "-p my_plugin --import-mode=importlib --doctest-report ndiff --tb short --benchmark-disable tests"
    assert usable_options(words.split()) == (["--import-mode=importlib", "--doctest-report", "ndiff"], ["my_plugin"])


def test_refused_plugins_are_those_that_the_options_exclude() -> None:
    assert refused_plugins("-p no:asyncio -p trio -pno:xdist --no:this".split()) == {"asyncio", "xdist"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = --import-mode=importlib -v\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib", "-v"]\n'),
        ("tox.ini", "[pytest]\naddopts = --import-mode=importlib -v\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --import-mode=importlib -v\n"),
    ],
)
def test_read_config_takes_the_file_that_pytest_would_take(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "setup.cfg").write_text(text if name == "setup.cfg" else "[tool:pytest]\naddopts = --wrong\n")
    config = read_config(tmp_path)
    assert config.file == name
    assert options(config, ["--run-slow"], ["tests/a.py::b c"]) == [
        "addopts=--import-mode=importlib --run-slow '--deselect=tests/a.py::b c'"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.toml", '[pytest]\naddopts = ["-v", "-s"]\n'),
        ("pyproject.toml", '[tool.pytest]\naddopts = ["-v", "-s"]\n'),
    ],
)
def test_read_config_takes_settings_in_the_types_of_toml(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "tox.ini").write_text("[pytest]\naddopts = --wrong\n")
    config = read_config(tmp_path)
    assert (config.file, config.native, config.addopts) == (name, True, ("-v", "-s"))


def test_options_are_empty_when_nothing_is_configured(tmp_path: Path) -> None:
    config = read_config(tmp_path)
    assert (config.file, options(config, [], [])) == (None, [])


def test_options_switch_off_strictness_about_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "pytest.toml").write_text("[pytest]\nstrict = true\n")
    assert options(read_config(tmp_path), [], []) == ["strict_markers=false", "strict_config=false"]


def test_required_plugins_are_installed_but_no_longer_required(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nrequired_plugins = pytest-xyz>=1 pytest-cov\nasyncio_mode = auto\n")
    config = read_config(tmp_path)
    assert plugin_requirements(config) == ["pytest-xyz>=1", "pytest-cov", "pytest-asyncio"]
    assert options(config, [], []) == ["required_plugins="]
