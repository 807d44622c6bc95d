"""Test that runs the recipe of TRL in docs/frameworks.md, with TRL's own trainer and a scripted sampler."""

from __future__ import annotations

from pathlib import Path

from helpers import framework_recipes


def test_recipe_of_trl_prints_the_quoted_rewards(root: Path, drill_url: str, tmp_path: Path) -> None:
    code, output = framework_recipes.recipes(root / "docs" / "frameworks.md")["TRL"]
    printed = framework_recipes.run(code, drill_url, "http://127.0.0.1:9", tmp_path)
    assert printed.splitlines()[-1:] == output.splitlines(), printed
