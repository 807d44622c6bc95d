"""Plugins that a project's conftests name decide about tests, so that an agent's diff may not change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.tasks.task_paths import plugin_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytest_plugins = 'pkg.testing.fixtures'\n", ["pkg/testing/fixtures.py"]),
        ('pytest_plugins = ["pkg.more",\n    "pytester"]\n', ["src/pkg/more/__init__.py"]),
        ("plugins = ['pkg.testing.fixtures']\n", []),
    ],
)
def test_plugins_of_conftests_are_found_in_the_tree(tmp_path: Path, text: str, expected: list[str]) -> None:
    for path in ("pkg/testing/fixtures.py", "src/pkg/more/__init__.py", "tests/deep/conftest.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text if path.endswith("conftest.py") else "")
    assert plugin_files(tmp_path) == expected
