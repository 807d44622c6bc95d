"""What a server plays: the knobs of drills and of coding."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from etude.environments.coding.session import Budget
from etude.server.app import create_app
from etude.server.serving import serve
from etude.server.sources import coding_knobs, tasks_of, tools_of


@pytest.mark.parametrize("families", ["5", "[1]", "[[]]", "true", '{"choose": 1}'])
def test_families_that_are_no_names_get_one_line(families: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve("", port=0, environment="drill", knobs={"families": json.loads(families)}) != 0
    said = capsys.readouterr().err
    assert "give names, such as families=choose,chain" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("level", ["true", "1.0", "6", "[1]", '"2"'])
def test_a_level_is_a_whole_number_from_1_to_5(level: str) -> None:
    with pytest.raises(ValueError, match="level is .*: give a number from 1 to 5"):
        tasks_of("drill", "", {"level": json.loads(level)})


def test_families_and_a_level_choose_the_drills() -> None:
    tasks = tasks_of("drill", "", {"families": "stop, choose", "level": 2})
    assert [tasks.get_task("train", index).task_id.split("-")[1:4:2] for index in range(2)] == [
        ["stop", "l2"],
        ["choose", "l2"],
    ]
    assert tasks_of("drill", "", {"families": ["chain"]}).get_task("train", 0).task_id.startswith("drill-chain-")


def test_turns_and_tools_are_knobs_of_coding() -> None:
    assert coding_knobs({"turns": 3, "tools": ["submit", "edit_file"]}) == {
        "budget": Budget(turns=3),
        "tools": ["edit_file", "submit"],
    }
    assert coding_knobs({"tools": "edit_file, submit"}) == {"tools": ["edit_file", "submit"]}
    assert coding_knobs({}) == {}


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"turns": 0}, "turns is 0: give a number, 1 or more"),
        ({"turns": True}, "turns is True"),
        ({"turns": "3x"}, "turns is '3x'"),
        ({"tools": []}, r"tools is \[\]: give names, such as tools=edit_file,submit"),
        ({"tools": 5}, "tools is 5"),
        ({"tools": ["edit_fil"]}, "Did you mean 'edit_file'"),
        ({"level": 1}, "coding has the knobs turns and tools, not level"),
    ],
)
def test_knobs_of_coding_that_make_no_sense_get_one_line(
    knobs: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve("", port=0, environment="coding", knobs=knobs) != 0
    printed = capsys.readouterr().err
    assert re.search(said, printed) and printed.count("\n") == 1


def test_rows_and_routes_list_the_tools_that_there_are(light: Any) -> None:
    assert [tool["function"]["name"] for tool in tools_of("coding", {"tools": "submit"})] == ["submit"]
    with light.serving(create_app(light.task_set(1), knobs={"tools": "edit_file,submit"})) as running:
        row, *_ = httpx.get(f"{running.url}/rows").json()["rows"]
    shown = row["responses_create_params"]
    assert [tool["name"] for tool in shown["tools"]] == ["edit_file", "submit"]
    assert "You have the tools edit_file, submit." in shown["input"][0]["content"]
