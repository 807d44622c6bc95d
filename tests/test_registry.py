"""Names to objects: built-in, from a third party, and mistyped."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.errors import UnknownName
from etude.registry import Registry, did_you_mean

SHAPES = Registry("shape", "etude_test.shapes", {"decoder": "json:JSONDecoder", "task": ".models:Task"})


def test_a_name_loads_its_object() -> None:
    import json

    assert SHAPES.load("decoder") is json.JSONDecoder


def test_a_relative_path_is_one_of_etudes_own() -> None:
    from etude.models import Task

    assert SHAPES.load("task") is Task


def test_a_mistyped_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        SHAPES.load("decodr")
    assert str(caught.value) == "unknown shape 'decodr'. Did you mean 'decoder'?"


def test_a_name_like_no_other_gets_the_list() -> None:
    assert did_you_mean("shape", "zzz", ["b", "a"]) == "unknown shape 'zzz'. There are: a, b"
    assert did_you_mean("shape", "zzz", []) == "unknown shape 'zzz'. There are: none"


def test_a_third_party_adds_names_and_cannot_take_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[etude_test.shapes]\nencoder = json:JSONEncoder\ndecoder = json:loads\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import json

    assert SHAPES.names() == ["decoder", "encoder", "task"]
    assert SHAPES.load("encoder") is json.JSONEncoder
    assert SHAPES.load("decoder") is json.JSONDecoder
