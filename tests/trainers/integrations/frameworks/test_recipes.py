"""Tests that run the recipes of docs/frameworks.md as written, against a served drill and a served coding task.

``policy`` and its like, which a reader brings, err three times and then solve the task.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = ["OpenEnv", "Gymnasium", "verl", "slime", "AReaL", "atropos", "rLLM", "ART"]
"""Frameworks whose recipe needs no more than the packages of every test run."""
SEPARATE = {"inspect_ai": "inspect_ai==0.3.285", "SkyRL-gym": "skyrl-gym==0.4.0"}
"""Packages that need an environment of their own."""


@pytest.mark.parametrize("name", HERE)
def test_recipe_prints_the_quoted_output_when_a_drill_is_served(
    name: str, recipes: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    code, output = recipes[name]
    assert helper.run(code, drills.url, drills.policy.url, tmp_path) == output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OpenEnv", "Gymnasium", "verl", "atropos"])
def test_recipe_gets_the_full_reward_when_a_coding_task_is_served(
    name: str, recipes: Any, coding: Any, helper: Any, tmp_path: Path
) -> None:
    printed = helper.run(recipes[name].code, coding.url, coding.policy.url, tmp_path)
    assert printed.startswith(("1.0 ", "[1.0, 1.0] ")), printed


@pytest.fixture(scope="session", params=SEPARATE)
def separate(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, checkout_in: Callable[[Path], Path]
) -> tuple[str, Path]:
    """Return a framework's name, and the Python of an environment with it and etude."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", SEPARATE[request.param], checkout_in(folder / "etude")]
    subprocess.run(pip, check=True, capture_output=True)
    return request.param, python


@pytest.mark.slow
def test_recipe_prints_the_quoted_output_when_it_has_an_environment_of_its_own(
    separate: tuple[str, Path], recipes: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    name, python = separate
    code, output = recipes[name]
    assert helper.run(code, drills.url, drills.policy.url, tmp_path, python) == output


@pytest.mark.slow
def test_recipe_gets_the_full_reward_when_a_coding_task_meets_its_own_environment(
    separate: tuple[str, Path], recipes: Any, coding: Any, helper: Any, tmp_path: Path
) -> None:
    name, python = separate
    printed = helper.run(recipes[name].code, coding.url, coding.policy.url, tmp_path, python)
    assert printed.startswith(("1.0 ", "success 1.0 ")), printed


def test_every_recipe_of_the_document_is_run(recipes: Any) -> None:
    assert set(recipes) == {*HERE, *SEPARATE, "TRL"}, "test_trl_recipe.py runs TRL's"
