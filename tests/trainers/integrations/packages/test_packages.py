"""Tests of the adapters as separate packages: what they import, what they require, what their READMEs say."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ALLOWED = {"etude.client", "etude.models", "etude.errors", "etude.hints"}


@pytest.fixture(scope="module")
def adapters(root: Path) -> Path:
    return root / "trainers" / "integrations" / "packages"


def test_adapters_import_only_the_client_side_of_etude(adapters: Path) -> None:
    modules = set()
    for path in adapters.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules.add(node.module or "")
    etude_modules = {name for name in modules if name.split(".")[0] == "etude"}
    assert etude_modules and etude_modules <= ALLOWED
    assert not [name for name in modules if name.split(".")[0] in ("openenv", "torch", "mcp")]


def test_verifiers_adapter_requires_etude_and_verifiers_but_no_openenv(adapters: Path, root: Path) -> None:
    project = tomllib.loads((adapters / "verifiers/pyproject.toml").read_text())["project"]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"etude", *extras["verifiers"]} <= set(project["dependencies"])
    assert not [line for line in project["dependencies"] if line.startswith(("openenv", "etude["))]


def test_install_commands_name_folders_of_the_checkout(adapters: Path, root: Path) -> None:
    for readme in (adapters / "verifiers" / "README.md", adapters / "nemo_gym" / "README.md"):
        installs = [line for line in readme.read_text().splitlines() if line.startswith("pip install")]
        assert installs or readme.parent.name == "nemo_gym"
        for words in (line.split()[2:] for line in installs):
            assert "etude" not in words, "the package is not on an index"
            folders = [root / word for word in words if word.startswith(".")]
            assert folders and all((folder / "pyproject.toml").is_file() for folder in folders)
