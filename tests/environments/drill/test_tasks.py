"""Endless tasks: ids, splits, seeds, levels."""

from __future__ import annotations

import subprocess
import sys

import pytest

from etude.environments.drill.families import FAMILIES
from etude.environments.drill.tasks import LISTED, DrillTasks, Name
from etude.environments.drill.words import NOUNS
from etude.errors import UnknownName
from etude.models import AnswerVerifier, Task

DIGEST = """
import hashlib
from etude.environments.drill.tasks import DrillTasks
tasks = DrillTasks()
rows = "".join(tasks.get_task(split, index).model_dump_json() for split in ("train", "eval") for index in range(100))
drills = [tasks.drill(tasks.get_task("train", index).task_id) for index in range(100)]
tools = "".join(str(tool.schema()) for drill in drills for tool in drill.tools)
print(hashlib.sha256((rows + tools).encode()).hexdigest())
"""


def test_the_same_ids_give_the_same_rows_and_tools_in_another_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1 and len(digests.pop()) == 65


def test_a_row_is_a_task_that_another_environment_would_not_take() -> None:
    row = DrillTasks().by_id("drill-schema-12")
    assert Task.model_validate_json(row.model_dump_json()) == row
    assert (row.environment, row.repo, row.snapshot, row.patch) == ("drill", "", None, "")
    assert isinstance(row.verifier, AnswerVerifier) and row.verifier.components == ["answer", "effects"]
    with pytest.raises(ValueError, match="not by pytest"):
        _ = row.pytest


def test_an_id_fixes_the_task_whatever_the_set() -> None:
    narrow = DrillTasks(["stop"], level=5)
    assert narrow.by_id("drill-choose-12-l3") == DrillTasks().by_id("drill-choose-12-l3")
    assert narrow.get_task("train", 4).task_id == "drill-stop-4-l5"


def test_a_drawn_level_is_the_same_drill_as_the_named_level() -> None:
    tasks = DrillTasks()
    level = tasks.by_id("drill-chain-12").features["level"]
    assert tasks.drill("drill-chain-12").statement == tasks.drill(f"drill-chain-12-l{level}").statement
    assert {tasks.by_id(f"drill-chain-{seed}").features["level"] for seed in range(60)} == {1, 2, 3, 4, 5}


def test_train_and_eval_share_neither_id_nor_statement_nor_noun() -> None:
    tasks = DrillTasks()
    rows = {split: [tasks.get_task(split, index) for index in range(2000)] for split in tasks.list_splits()}
    for field in ("task_id", "problem_statement"):
        observed = {split: {getattr(row, field) for row in rows[split]} for split in rows}
        assert observed["train"].isdisjoint(observed["eval"])
        assert min(len(values) for values in observed.values()) > 1990
    train, held_out = ({word for noun in nouns for word in (noun.word, noun.other)} for nouns in NOUNS)
    assert train.isdisjoint(held_out)
    assert {row.split for row in rows["eval"]} == {"eval"} and {row.split for row in rows["train"]} == {"train"}


def test_an_index_may_be_larger_than_the_list() -> None:
    tasks = DrillTasks()
    assert (len(tasks.list_tasks("train")), tasks.size("eval"), len(tasks)) == (LISTED, LISTED, 2 * LISTED)
    assert tasks.get_task("eval", 10 * LISTED).split == "eval"
    indices = [tasks.get_task("train", index).task_id for index in range(500)]
    assert len(set(indices)) == 500
    with pytest.raises(IndexError):
        tasks.get_task("train", -1)


def test_a_seed_draws_from_the_requested_split() -> None:
    tasks = DrillTasks()
    assert tasks.draw(None, 1).split == tasks.draw("train", 1).split == "train"
    assert tasks.draw("eval", 1) == tasks.draw("eval", 1) != tasks.draw("eval", 2)


@pytest.mark.parametrize(
    ("task_id", "advice"),
    [
        ("drill-chose-1", "Did you mean 'choose'"),
        ("drill-choose", "an id looks like"),
        ("drill-choose-01", "an id looks like"),
        ("drill-choose-1-l6", "an id looks like"),
        ("cachetools", "an id looks like"),
    ],
)
def test_a_wrong_id_says_how_ids_look(task_id: str, advice: str) -> None:
    with pytest.raises(UnknownName, match=advice):
        DrillTasks().by_id(task_id)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'chain'"):
        DrillTasks(["chian"])
    with pytest.raises(ValueError, match="from 1 to 5"):
        DrillTasks(level=9)
    with pytest.raises(UnknownName, match="Did you mean 'eval'"):
        DrillTasks().get_task("evl", 0)


def test_levels_make_every_family_longer() -> None:
    tasks = DrillTasks()
    for family, measure in {
        "choose": "distractors",
        "schema": "items",
        "recover": "faults",
        "verbs": "values",
        "stop": "loads_at_most",
    }.items():
        easy, hard = (tasks.generate(Name(family, 12, level))[0].features[measure] for level in (1, 5))
        assert hard > easy, family
    assert set(FAMILIES.paths()) == {"choose", "schema", "chain", "recover", "stop", "verbs"}
