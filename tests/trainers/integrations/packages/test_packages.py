"""The adapters are packages of their own: what they import, and what they ask to be installed."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ALLOWED = {"etude.client", "etude.models", "etude.hints"}


@pytest.fixture(scope="module")
def adapters(root: Path) -> Path:
    return root / "trainers" / "adapters"


def test_adapters_meet_the_world_through_the_client(adapters: Path) -> None:
    found = set()
    for path in adapters.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module or "")
    assert {name for name in found if name.split(".")[0] == "etude"} <= ALLOWED
    assert not [name for name in found if name.split(".")[0] in ("openenv", "torch", "mcp")]


def test_the_verifiers_adapter_needs_etude_and_verifiers_and_no_openenv(adapters: Path, root: Path) -> None:
    project = tomllib.loads((adapters / "verifiers/pyproject.toml").read_text())["project"]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"etude", *extras["verifiers"]} <= set(project["dependencies"])
    assert not [line for line in project["dependencies"] if line.startswith(("openenv", "etude["))]
