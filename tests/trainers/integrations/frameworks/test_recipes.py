"""Tests that run the recipes of docs/frameworks.md against a served drill and a served coding task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = ["OpenEnv", "Gymnasium"]
"""Frameworks that are installed for every test run."""


@pytest.mark.parametrize("name", HERE)
def test_recipe_prints_the_quoted_output_when_a_drill_is_served(
    name: str, recipes: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    code, output = recipes[name]
    assert helper.run(code, drills.url, drills.policy.url, tmp_path) == output
