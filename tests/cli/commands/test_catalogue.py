"""``etude list``: every kind of name, with a description that a newcomer reads and a path for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.paths import ROOT

from etude.cli import app as cli
from etude.cli.commands.catalogue import KINDS, catalogue, recipe_path
from etude.cli.names import RECIPES
from etude.errors import UnknownName


def test_list_names_what_is_built_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == set(KINDS)
    assert "fd_function" in data["generators"]
    assert "coding" in data["environments"]
    assert {"bubblewrap", "process"} <= set(data["sandboxes"])
    assert {"oracle", "noop", "cheater"} <= set(data["agents"])
    assert data["environments"]["coding"]["path"] == "etude.environments.coding.session:CodingSession"
    assert {"tiny", "small", "demo", "qwen3-0.6b", "qwen3-8b", "qwen3-30b-a3b"} <= set(data["recipes"])


def test_list_shows_one_kind_with_descriptions_and_without_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "generators"]) == 0
    shown = capsys.readouterr().out
    assert "fd_function" in shown
    assert "description" in shown
    assert "bubblewrap" not in shown
    assert "etude.generators" not in shown


@pytest.mark.parametrize("kind", KINDS)
def test_catalogue_describes_every_built_in_name(kind: str) -> None:
    descriptions = {entry.name: entry.description for entry in catalogue([kind]) if "etude" in entry.path}
    assert descriptions
    bad = [name for name, text in descriptions.items() if not text or "cannot be loaded" in text or "\n" in text]
    assert bad == []


def test_recipe_path_finds_files_and_shipped_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.toml"
    own.write_text("")
    monkeypatch.chdir(tmp_path)
    assert recipe_path(Path("own.toml")) == Path("own.toml")
    assert recipe_path(Path("tiny")) == recipe_path(Path("tiny.toml")) == RECIPES / "tiny.toml"
    assert recipe_path(Path("other/tiny.toml")) == Path("other/tiny.toml")
    with pytest.raises(UnknownName, match="Did you mean 'demo.toml'"):
        recipe_path(Path("dmo.toml"))


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "recipes").glob("*.toml")))
def test_shipped_recipe_is_found_by_its_name_with_and_without_its_suffix(name: str) -> None:
    assert recipe_path(Path(name)) == recipe_path(Path(name.removesuffix(".toml"))) == ROOT / "recipes" / name
