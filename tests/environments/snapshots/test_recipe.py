"""Recipes: the address of a snapshot, and the options that a user gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.snapshots import Recipe, SnapshotOptions
from etude.environments.snapshots.recipe import SourceRef
from etude.errors import BadOptions
from etude.models import PytestVerifier


def recipe(**changes: object) -> Recipe:
    fields: dict[str, object] = {
        "source": SourceRef(kind="pypi", spec="pypi:a==1", sha256="0" * 64),
        "name": "a",
        "version": "1",
        "python": "3.11.7",
        "platform": "linux-x86_64",
        "base": "debian-12",
        "pytest": "8.3.5",
        "requirements": ["pytest==8.3.5 --hash=sha256:00"],
        "packages": {"a": "src/a"},
        "tests": ["tests"],
        "verifier": PytestVerifier(args=["tests"]),
    }
    return Recipe(**{**fields, **changes})  # type: ignore[arg-type]


def test_digest_is_the_same_after_a_trip_through_json() -> None:
    first = recipe()
    assert Recipe.model_validate_json(first.canonical()).digest() == first.digest() == recipe().digest()


@pytest.mark.parametrize(
    "change",
    [
        {"python": "3.11.8"},
        {"platform": "linux-aarch64"},
        {"base": "ubuntu-24.04"},
        {"builder": "x"},
        {"requirements": []},
        {"setup_cmds": ["true"]},
        {"verifier": PytestVerifier(args=["test"])},
        {"env": {"A": "1"}},
        {"source": SourceRef(kind="pypi", spec="pypi:a==1", sha256="1" * 64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_digest_changes_with_each_field_of_the_recipe(change: dict[str, object]) -> None:
    assert recipe(**change).digest() != recipe().digest()


def test_from_toml_reads_the_options(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(
        'python = "3.12"\nsetup_cmds = ["make data"]\ndeselect = ["t.py::x"]\ntimeout_s = 20\n[env]\nA = "1"\n'
    )
    assert SnapshotOptions.from_toml(path) == SnapshotOptions(
        python="3.12", setup_cmds=("make data",), deselect=("t.py::x",), timeout_s=20, env={"A": "1"}
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('pyton = "3.12"', "Did you mean 'python'"),
        ("python = ", "not TOML"),
        ("timeout_s = -1", "timeout_s: Input should be greater than 0"),
        ("env = 3", "env: Input should be a valid dictionary"),
    ],
)
def test_from_toml_names_the_setting_when_the_file_is_bad(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(BadOptions, match=words):
        SnapshotOptions.from_toml(tmp_path / "recipe.toml")
    with pytest.raises(BadOptions, match="cannot read the recipe"):
        SnapshotOptions.from_toml(tmp_path / "absent.toml")
