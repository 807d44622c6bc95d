"""The face of the package: few names, each of which resolves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import etude

PUBLIC = {
    "Action",
    "Client",
    "Episode",
    "ErrorTurn",
    "Finding",
    "Hint",
    "Observation",
    "PublicTask",
    "Reward",
    "State",
    "Task",
    "TaskSet",
    "Turn",
    "__version__",
    "connect",
    "load_tasks",
    "make",
}


def test_the_public_names_are_these() -> None:
    assert set(etude.__all__) == PUBLIC
    assert len(PUBLIC) <= 20
    assert set(dir(etude)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(etude, name) is not None


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="mak"):
        etude.mak  # noqa: B018


def test_an_unknown_environment_gets_the_nearest_name() -> None:
    with pytest.raises(KeyError, match="Did you mean 'coding'"):
        etude.make("codin")


def test_the_version_is_the_distributions(root: Path) -> None:
    import tomllib

    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"] == etude.__version__


def test_the_face_imports_only_when_asked(root: Path) -> None:
    """At run time, no import stands at module level (those for type checkers do)."""
    body = ast.parse((root / "__init__.py").read_bytes()).body
    found = {node.module for node in body if isinstance(node, ast.ImportFrom)}
    assert found == {"__future__", "typing"}
    assert not any(isinstance(node, ast.Import) for node in body)
