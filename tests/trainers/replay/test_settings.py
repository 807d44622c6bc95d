"""Tests of the file of teachers: each mistake is a one-line error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etude.errors import ReplayError
from etude.trainers.replay.settings import load_settings, parse_settings

ONE: dict[str, Any] = {"name": "a", "model": "m"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"teachers": [ONE], "budgte": {}}, "unknown key 'budgte'. Did you mean 'budget'?"),
        ({"teachers": [{**ONE, "modle": 1}]}, "[teachers]: unknown key 'modle'. Did you mean 'model'?"),
        ({"teachers": [ONE], "gate": {"explor": 0.1}}, "[gate]: unknown key 'explor'. Did you mean 'explore'?"),
        ({"teachers": [ONE], "gate": {"which": "some"}}, "gate.which: Input should be 'voi', 'all' or 'random'"),
        ({"teachers": []}, "teachers: Tuple should have at least 1 item"),
        ({"teachers": [ONE, ONE]}, "two teachers have the same name"),
        ({"teachers": [{**ONE, "cassette": "c"}, {**ONE, "name": "b", "cassette": "c"}]}, "have the same cassette"),
        ({"teachers": [ONE]}, "consensus.least is 2, but there are 1 teachers; lower it"),
        ({"teachers": [{**ONE, "price": [-1, 2]}]}, "a price is USD per million tokens"),
        ({"teachers": [ONE, {**ONE, "name": "b"}], "budget": {"usd": 1}}, "budget.usd needs prices"),
        ({}, "teachers: Field required"),
        ({"teachers": [{**ONE, "price": [float("nan"), 1]}]}, "teachers.0.price.0: Input should be a finite number"),
        ({"teachers": [ONE], "gate": {"worth": float("inf")}}, "gate.worth: Input should be a finite number"),
        ({"teachers": [ONE], "budget": {"tokens": True}}, "budget.tokens: Input should be a number, not true"),
        ({"teachers": [{**ONE, "cassette": "c"}, {**ONE, "name": "b", "cassette": "./c"}]}, "have the same cassette"),
        *(
            (
                {"teachers": [ONE, {**ONE, "name": "b"}], "gate": gate},
                f"gate.{next(iter(gate))} is only read with which =",
            )
            for gate in ({"rate": 0.5}, {"worth": 1.0, "which": "all"}, {"explore": 0.1, "which": "random"})
        ),
    ],
)
def test_parse_settings_reports_a_mistake_in_one_line(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ReplayError) as refused:
        parse_settings(table)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_load_settings_places_cassettes_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text('[[teachers]]\nname="a"\nmodel="m"\ncassette="a.jsonl"\n[consensus]\nleast=1\n[value]\nfollow=2\n')
    settings = load_settings(path)
    assert settings.teachers[0].cassette == str(tmp_path / "a.jsonl")
    assert (settings.value.follow, settings.consensus.margin, settings.gate.which) == (2, 0.34, "voi")


def test_load_settings_refuses_a_missing_file_and_broken_toml(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="cannot find .*; write a file that lists the teachers"):
        load_settings(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[teachers]\n")
    with pytest.raises(ReplayError, match="cannot be read as TOML"):
        load_settings(tmp_path / "bad.toml")
