"""Tests that run the recipes of docs/frameworks.md as written, against a served drill and a served coding task.

``policy`` and its like, which a reader brings, err three times and then solve the task.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = ["OpenEnv", "Gymnasium", "verl", "slime", "AReaL", "atropos", "rLLM", "ART"]
"""Frameworks whose recipe needs no more than the packages of every test run."""
ALONE = {"inspect_ai", "SkyRL-gym", "verifiers", "prime-rl", "NeMo Gym"}
"""Frameworks whose recipe runs in an environment of its own: test_own_environments.py."""
PACKAGES = {*ALONE, "verl", "AReaL", "atropos", "ART"}
"""Frameworks whose package is installed there."""


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


def test_every_recipe_of_the_document_is_run(recipes: Any, with_package: Any) -> None:
    assert set(recipes) == {*HERE, *ALONE, "TRL", "Harbor"}, "test_trl_recipe.py and test_harbor_runs.py run two"
    assert set(with_package) == set(PACKAGES) & set(HERE)
