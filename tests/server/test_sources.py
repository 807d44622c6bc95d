"""What a server plays: the knobs of drills."""

from __future__ import annotations

import json

import pytest

from etude.server.serving import serve
from etude.server.sources import tasks_of


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
