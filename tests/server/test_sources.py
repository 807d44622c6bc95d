"""Sources of a server: the knobs of drills and of coding, and the tools that are listed."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from etude.environments.coding.session import CodingKnobs, CodingSession
from etude.environments.declaration import read_knobs
from etude.environments.tasks.task_set import TaskSet
from etude.models import MAY_GIVE_UP
from etude.server.app import create_app
from etude.server.serving import serve
from etude.server.sources import tasks_of, tools_of


@pytest.mark.parametrize("families", ["5", "[1]", "[[]]", "true", '{"choose": 1}'])
def test_serve_refuses_families_in_one_line_when_they_are_not_names(
    families: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve("", port=0, environment="drill", knobs={"families": json.loads(families)}) != 0
    printed = capsys.readouterr().err
    assert "knob families must be names with commas between them, such as families=first,second, got " in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("level", ["true", "1.0", "6", "[1]", '"2"'])
def test_tasks_of_refuses_a_level_when_it_is_not_an_integer_from_1_to_5(level: str) -> None:
    with pytest.raises(ValueError, match="knob level must be (a valid integer|less than or equal to 5), got "):
        tasks_of("drill", "", {"level": json.loads(level)})


def test_families_and_a_level_choose_the_drills() -> None:
    tasks = tasks_of("drill", "", {"families": "stop, choose", "level": 2})
    assert [tasks.get_task("train", index).task_id.split("-")[1:4:2] for index in range(2)] == [
        ["stop", "l2"],
        ["choose", "l2"],
    ]
    assert tasks_of("drill", "", {"families": ["chain"]}).get_task("train", 0).task_id.startswith("drill-chain-")


def test_turns_and_tools_are_knobs_of_coding() -> None:
    knobs = read_knobs(CodingSession, {"turns": 3, "tools": ["submit", "edit_file"]})
    assert knobs == CodingKnobs(turns=3, tools=("submit", "edit_file"))
    assert read_knobs(CodingSession, {"tools": "edit_file, submit"}) == CodingKnobs(tools=("edit_file", "submit"))
    assert read_knobs(CodingSession, {}) == CodingKnobs()


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"turns": 0}, "knob turns must be greater than or equal to 1, got 0"),
        ({"turns": True}, "knob turns must be a valid integer, got True"),
        ({"turns": "3x"}, "knob turns must be a valid integer, got '3x'"),
        ({"tools": []}, r"knob tools must be names .*, such as tools=first,second, got \[\]"),
        ({"tools": 5}, "knob tools must be names .*, got 5"),
        ({"tools": ["edit_fil"]}, "Did you mean 'edit_file'"),
        ({"turn": 1}, "unknown knob 'turn'. Did you mean 'turns'?"),
        ({"level": 1}, "unknown knob 'level'. There are: tools, turns"),
    ],
)
def test_serve_refuses_knobs_of_coding_in_one_line_when_they_make_no_sense(
    knobs: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve("", port=0, environment="coding", knobs=knobs) != 0
    printed = capsys.readouterr().err
    assert re.search(message, printed) and printed.count("\n") == 1


def test_rows_and_routes_list_the_tools_that_there_are(light: Any) -> None:
    assert [tool["function"]["name"] for tool in tools_of("coding", TaskSet([]), {"tools": "submit"})] == ["submit"]
    with light.serving(create_app(light.task_set(1), knobs={"tools": "edit_file,submit"})) as running:
        row, *_ = httpx.get(f"{running.url}/rows").json()["rows"]
    shown = row["responses_create_params"]
    assert [tool["name"] for tool in shown["tools"]] == ["edit_file", "submit"]
    assert "You have the tools edit_file, submit." in shown["input"][0]["content"]


def test_tools_that_a_set_offers_and_a_profile_are_listed_as_they_are_played(light: Any) -> None:
    task = light.task_set(1).list_tasks("train")[0]
    offered = TaskSet([light.task(0).model_copy(update={"features": {MAY_GIVE_UP: True}})])
    every = [tool["function"]["name"] for tool in tools_of("coding", TaskSet([]))]
    names = [tool["function"]["name"] for tool in tools_of("coding", offered, {"tools": "restricted"})]
    assert names == [*every, "give_up"] and "restricted" not in names
    with light.serving(create_app(offered, knobs={"tools": "restricted,bash"})) as running:
        row, *_ = httpx.get(f"{running.url}/rows").json()["rows"]
    shown = row["responses_create_params"]
    assert [tool["name"] for tool in shown["tools"]] == ["bash", "give_up"] and task.task_id == row["task_id"]
